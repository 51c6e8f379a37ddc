package cas

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/zeebo/blake3"

	"durafs/internal/vfs"
)

// crasher is a file system that keeps, before and after every call that
// changes something, what a power cut could leave: each file as it was last
// synced, as it is, or with zeros in its new part, and the names as they were
// last synced or as they are.
type crasher struct {
	vfs.FS
	dir    string
	ledger *fakeLedger

	mu     sync.Mutex // held during every call that changes something
	now    map[string]*crashFile
	synced map[string]*crashFile // names since the directory was last synced
	acked  map[ID]Ref
	states map[ID]crashState // by content, so that equal ones are tried once
}

type crashFile struct{ synced []byte }

type crashState struct {
	files  map[string][]byte
	ledger []Pack
	high   uint32
	acked  []Ref
}

func newCrasher(dir string, l *fakeLedger) *crasher {
	c := &crasher{dir: dir, ledger: l, now: map[string]*crashFile{}, acked: map[ID]Ref{}, states: map[ID]crashState{}}
	names, _ := os.ReadDir(dir)
	for _, n := range names {
		data, _ := os.ReadFile(filepath.Join(dir, n.Name()))
		c.now[n.Name()] = &crashFile{synced: data}
	}
	c.synced = maps.Clone(c.now)
	c.FS = vfs.Hooked(vfs.OS, c.around)
	return c
}

func (c *crasher) around(call vfs.Call, do func(int64) error) error {
	if call.Op&(vfs.OpChanges|vfs.OpSyncs) == 0 {
		return do(vfs.Whole)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshot()
	name := filepath.Base(call.Name)
	if err := do(vfs.Whole); err != nil {
		return err
	}
	switch call.Op {
	case vfs.OpCreate:
		c.now[name] = &crashFile{}
	case vfs.OpRename:
		c.now[filepath.Base(call.To)] = c.now[name]
		delete(c.now, name)
	case vfs.OpRemove:
		delete(c.now, name)
	case vfs.OpDatasync:
		c.now[c.nameNow(name)].synced, _ = os.ReadFile(filepath.Join(c.dir, c.nameNow(name)))
	case vfs.OpDirSync:
		c.synced = maps.Clone(c.now)
	}
	c.snapshot()
	return nil
}

// nameNow follows a file that was renamed while it was open.
func (c *crasher) nameNow(name string) string {
	if c.now[name] != nil {
		return name
	}
	var seq uint32
	fmt.Sscanf(name, "active-%d.pack", &seq)
	for n := range c.now {
		if data, _ := os.ReadFile(filepath.Join(c.dir, n)); len(data) > 36 && binary.LittleEndian.Uint32(data[32:]) == seq {
			return n
		}
	}
	panic("unknown file " + name)
}

func (c *crasher) ack(ref Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked[ref.ID] = ref
	c.snapshot()
}

// snapshot keeps the states that a power cut could leave now.
func (c *crasher) snapshot() {
	current := map[*crashFile][]byte{}
	for n, f := range c.now {
		current[f], _ = os.ReadFile(filepath.Join(c.dir, n))
	}
	for _, names := range []map[string]*crashFile{c.now, c.synced} {
		for _, content := range []func(*crashFile) []byte{
			func(f *crashFile) []byte { return f.synced },
			func(f *crashFile) []byte { return current[f] },
			func(f *crashFile) []byte { // the size came, the data did not
				grown := max(len(current[f]), len(f.synced))
				return append(bytes.Clone(f.synced), make([]byte, grown-len(f.synced))...)
			},
		} {
			st := crashState{files: map[string][]byte{}, ledger: c.ledger.Packs(), high: c.ledger.highest(), acked: slices.Collect(maps.Values(c.acked))}
			for n, f := range names {
				st.files[n] = content(f)
			}
			c.states[st.id()] = st
		}
	}
}

func (st crashState) id() ID {
	h := blake3.New()
	for _, n := range slices.Sorted(maps.Keys(st.files)) {
		fmt.Fprintf(h, "%s %d ", n, len(st.files[n]))
		h.Write(st.files[n])
	}
	fmt.Fprintf(h, "%v %d", st.ledger, len(st.acked))
	return ID(h.Sum(nil))
}

// lay puts the state into a new directory.
func (st crashState) lay(t *testing.T) (string, *fakeLedger) {
	dir, err := os.MkdirTemp(memDir(t), "state")
	if err != nil {
		t.Fatal(err)
	}
	for n, data := range st.files {
		if err := os.WriteFile(filepath.Join(dir, n), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, &fakeLedger{packs: slices.Clone(st.ledger), high: st.high}
}

// check opens the state and reads all that was acknowledged; with deep it
// does so also for every state that a power cut during this open leaves.
func (st crashState) check(t *testing.T, datas map[ID][]byte, deep bool) (states int) {
	dir, l := st.lay(t)
	defer os.RemoveAll(dir)
	c := newCrasher(dir, l)
	for _, ref := range st.acked {
		c.acked[ref.ID] = ref
	}
	o := faultOptions(t, l, dir, vfs.OS)
	if deep {
		o.FS = c
	}
	s, rec := reopen(t, o, st.acked...)
	if len(rec.Damage)+len(rec.Missing)+len(rec.Orphans) > 0 {
		t.Fatalf("recovery %+v of %v", rec, slices.Sorted(maps.Keys(st.files)))
	}
	for _, ref := range st.acked {
		wantBytes(t, s, ref, datas[ref.ID])
	}
	s.Close()
	if found := verify(t, dir, l.packs, false); len(found) > 0 {
		t.Fatalf("verify: %v", found)
	}
	states = 1
	if deep {
		for _, below := range c.states {
			states += below.check(t, datas, false)
		}
	}
	return states
}

// After a power cut at any point what was acknowledged is there, also when the
// power is cut again while the store opens.
func TestPowerCut(t *testing.T) {
	l := &fakeLedger{}
	c := newCrasher(memDir(t), l)
	o := faultOptions(t, l, c.dir, c)
	s := open(t, o)
	datas := map[ID][]byte{}
	for i, n := range []int{20_000, 50_000, 17_000, 40_000} {
		data := noise(uint64(200+i), n)
		ref := mustPut(t, s, data)
		datas[ref.ID] = data
		c.ack(ref)
	}
	s.Close()
	n, i := 0, 0
	for _, id := range slices.SortedFunc(maps.Keys(c.states), func(a, b ID) int { return bytes.Compare(a[:], b[:]) }) {
		deep := i%8 == 0 && !testing.Short()
		i++
		n += c.states[id].check(t, datas, deep)
	}
	t.Logf("%d states, %d with those of a second power cut", len(c.states), n)
	if len(c.states) < 60 {
		t.Errorf("only %d states", len(c.states))
	}
}
