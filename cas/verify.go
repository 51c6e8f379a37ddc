package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"durafs/internal/vfs"
)

// Finding is one thing that Verify found wrong.
type Finding struct {
	File   string
	Offset int64
	ID     ID // zero if not known
	Reason string
	// Gone is set for a pack that is not there and was not sealed when the list
	// was read: beside an open store it may have been dropped since, unless
	// something refers to it.
	Gone bool

	// seq is the pack's number, and end how far the bytes reach that are not
	// what was stored: for Harmed.
	seq uint32
	end int64
}

// Pack is the number of the pack.
func (f Finding) Pack() uint32 { return f.seq }

func (f Finding) String() string {
	s := fmt.Sprintf("%s: offset %d: %s", f.File, f.Offset, f.Reason)
	if f.ID != (ID{}) {
		s += " (id " + f.ID.String() + ")"
	}
	return s
}

// Summary counts what Verify looked at.
type Summary struct {
	Packs    int
	Records  int64
	Bytes    int64 // of packs
	Findings int
}

// Verify checks the packs that a ledger lists in dir, without writing: every
// header, record, footer and hash of sealed packs; with deep also that every
// chunk decodes to its id, and that every manifest's chunks are there and make
// up the payload. It may run beside an open store: of a pack that is not
// sealed it checks what is there, and takes an unfinished end for what it is.
// Each finding is reported once. The error is ctx's, or why dir could not be
// read at all.
//
// census, if not nil, takes down each record that checks: what refers to an id
// that it has not refers to nothing.
func Verify(ctx context.Context, fsys vfs.FS, dir string, packs []Pack, deep bool, census *Census, report func(Finding)) (Summary, error) {
	if census == nil {
		census = new(Census)
	}
	v, done, err := newVerifier(ctx, fsys, dir, packs)
	if err != nil {
		return Summary{}, err
	}
	defer done()
	v.deep, v.census, v.report = deep, census, report
	for _, l := range v.packs {
		if p := v.s.packs[l.Seq]; p != nil {
			if err := v.pack(p, l); err != nil {
				return v.sum, err
			}
		}
	}
	return v.sum, nil
}

// newVerifier looks for the packs that a ledger lists in dir.
func newVerifier(ctx context.Context, fsys vfs.FS, dir string, packs []Pack) (v *verifier, done func(), err error) {
	if _, err := fsys.ReadDir(dir); err != nil {
		return nil, nil, fmt.Errorf("cas: %w", err)
	}
	codec, err := newBodyCodec(nil)
	if err != nil {
		return nil, nil, err
	}
	s := &Store{
		fs: fsys, dir: dir, codec: codec, packs: make(map[uint32]*pack),
		files: newFileCache(fsys, openFilesMax), cache: newChunkCache(cacheBytesMax),
	}
	s.startPools()
	v = &verifier{s: s, ctx: ctx, packs: slices.Clone(packs)}
	slices.SortFunc(v.packs, func(a, b Pack) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, l := range v.packs {
		if !l.Sealed || l.Bytes > 0 {
			s.packs[l.Seq] = v.locate(l)
		}
	}
	return v, func() { s.files.close(); codec.close() }, nil
}

type verifier struct {
	s      *Store // only its reading half is set up
	ctx    context.Context
	packs  []Pack
	deep   bool
	census *Census
	report func(Finding)
	sum    Summary
}

// found reports a finding in a pack, whose bytes from off to end are harmed.
func (v *verifier) found(p *pack, off, end int64, id ID, reason string) {
	v.sum.Findings++
	v.report(Finding{File: p.name, Offset: off, ID: id, Reason: reason, seq: p.seq, end: end})
}

// locate finds a pack's file under the names that it may have.
func (v *verifier) locate(l Pack) *pack {
	p := newPack(l, activeName(v.s.dir, l.Seq))
	if l.Sealed {
		p.sealed, p.written = true, l.Bytes
	}
	switch name := sealedName(v.s.dir, l.B3); {
	case l.Sealed && v.exists(name):
		p.name = name
	case !v.exists(p.name): // since the ledger was read it may have been sealed
		p.name = cmp.Or(v.byHeader(l), p.name)
	}
	if info, err := v.s.fs.Stat(p.name); err == nil && !l.Sealed {
		p.written = info.Size
	}
	return p
}

// relocate looks again for packs whose files have gone: beside an open store
// packs are sealed, and get other names by that.
func (v *verifier) relocate() {
	for _, l := range v.packs {
		if p := v.s.packs[l.Seq]; p != nil && !v.exists(p.name) {
			p.name = v.locate(l).name
		}
	}
}

func (v *verifier) exists(name string) bool {
	_, err := v.s.fs.Stat(name)
	return err == nil
}

func (v *verifier) byHeader(l Pack) string {
	names, _ := v.s.fs.ReadDir(v.s.dir)
	for _, n := range names {
		name := filepath.Join(v.s.dir, n)
		if h, ok := v.s.headerOf(name); ok && h.Seq == l.Seq && h.Nonce == l.Nonce {
			return name
		}
	}
	return ""
}

// pack checks one pack. The error is ctx's.
func (v *verifier) pack(p *pack, l Pack) error {
	f, err := v.s.fs.Open(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		v.relocate()
		f, err = v.s.fs.Open(p.name)
	}
	if err != nil {
		v.sum.Findings++
		v.report(Finding{
			File: p.name, Reason: fmt.Sprintf("pack %d cannot be opened: %v", p.seq, err), seq: p.seq, end: math.MaxInt64,
			Gone: !l.Sealed && errors.Is(err, fs.ErrNotExist),
		})
		return nil
	}
	defer f.Close()
	v.sum.Packs++
	v.sum.Bytes += p.written
	if h, err := readHeader(f); err != nil {
		v.found(p, 0, 0, ID{}, err.Error())
	} else if h.Seq != p.seq || h.Nonce != p.nonce {
		v.found(p, 0, 0, ID{}, fmt.Sprintf("the header is that of pack %d", h.Seq))
	}
	entries, err := v.records(p, f)
	if err != nil || !l.Sealed {
		return err
	}
	return v.sealed(p, l, f, entries)
}

// records walks a pack and returns the places of its sound records.
func (v *verifier) records(p *pack, f vfs.File) (entries []entry, err error) {
	var tail *walked // what is wrong with the end of a pack that is not sealed
	walkPack(f, p.nonce, p.written, func(w walked) {
		if err = cmp.Or(err, v.ctx.Err()); err != nil {
			return
		}
		if tail != nil {
			v.found(p, tail.off, tail.end, tail.hdr.ID, tail.err.Error())
			tail = nil
		}
		switch {
		case w.err != nil && !p.sealed:
			w.body = nil
			tail = &w
		case w.err != nil:
			v.found(p, w.off, w.end, w.hdr.ID, w.err.Error())
		default:
			v.sum.Records++
			entries = append(entries, w.entry())
			v.census.note(w)
			if v.deep {
				v.record(p, w)
			}
		}
	})
	return entries, err
}

// body checks that a record's body is what its id says.
func (v *verifier) body(f found) error {
	if f.hdr.Kind != kindChunk {
		return v.manifest(f)
	}
	space := v.s.getWorkspace()
	defer v.s.putWorkspace(space)
	out := space.back[:0]
	return v.s.verifyChunk(f, f.hdr.ID, int(f.hdr.Raw), &out)
}

// record reports a record whose body is not what its id says.
func (v *verifier) record(p *pack, w walked) {
	f := found{hdr: w.hdr, body: w.body, file: p.name, off: w.off}
	err := v.body(f)
	if errors.Is(err, fs.ErrNotExist) {
		v.relocate()
		err = v.body(f)
	}
	var d *DamageError
	switch {
	case err == nil:
	case errors.As(err, &d):
		reason := d.Reason
		if d.Err != nil {
			reason += ": " + d.Err.Error()
		}
		if d.File != f.file || d.Offset != f.off {
			reason = fmt.Sprintf("the payload's chunk %v in %s at %d: %s", d.ID, filepath.Base(d.File), d.Offset, reason)
		}
		v.found(p, w.off, w.end, w.hdr.ID, reason)
	default:
		v.found(p, w.off, w.end, w.hdr.ID, err.Error())
	}
}

// manifest checks a node; of a root also that the payload is whole.
func (v *verifier) manifest(f found) error {
	n, sum, err := parseNode(f.body)
	if err != nil {
		return f.damage(f.hdr.ID, "the manifest is wrong", err)
	}
	if f.hdr.Kind == kindNode {
		if sum != f.hdr.ID {
			return f.damage(f.hdr.ID, "the manifest's node is not that of its id", nil)
		}
		return nil
	}
	got, err := v.payload(n)
	if errors.Is(err, ErrNotFound) {
		// No pack holds a chunk of it. That is damage where something refers to
		// the payload, which Reach tells; else a sweep has left this behind.
		return nil
	}
	if err == nil && got != f.hdr.ID {
		err = f.damage(f.hdr.ID, "the chunks do not make up the payload", nil)
	}
	return err
}

// sealed checks what only a sealed pack has: footer, size, hash, name.
func (v *verifier) sealed(p *pack, l Pack, f vfs.File, walked []entry) error {
	size, err := f.Size()
	if err != nil || size != l.Bytes {
		v.found(p, size, math.MaxInt64, ID{}, fmt.Sprintf("the pack has not its %d bytes", l.Bytes))
	}
	b3, err := hashFile(stopping{v.ctx, f}, min(size, l.Bytes))
	switch {
	case v.ctx.Err() != nil:
		return v.ctx.Err()
	case err != nil:
		v.found(p, 0, 0, ID{}, err.Error())
	case b3 != l.B3:
		v.found(p, 0, 0, ID{}, fmt.Sprintf("the file's hash is %v, not %v", b3, l.B3))
	}
	_, entries, err := readFooter(f, p.written, p.seq, p.nonce)
	switch {
	case err != nil && b3 != l.B3:
		v.found(p, p.written, p.written, ID{}, "footer: "+err.Error())
	case err != nil: // a write failed on it, so it was ended without one
	default:
		slices.SortFunc(walked, compareEntries)
		if !slices.Equal(entries, walked) {
			v.found(p, p.written, p.written, ID{}, fmt.Sprintf("the footer lists other records than there are: %d, %d", len(entries), len(walked)))
		}
	}
	return nil
}

// stopping reads until ctx ends.
type stopping struct {
	ctx context.Context
	r   io.ReaderAt
}

func (s stopping) ReadAt(p []byte, off int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.ReadAt(p, off)
}

// payload is the hash of all that a root's manifest lists.
func (v *verifier) payload(root *node) (ID, error) {
	r := &Reader{s: v.s, size: root.Bytes, root: root}
	return hashFile(stopping{v.ctx, readerFunc(r.readAt)}, root.Bytes)
}

type readerFunc func(p []byte, off int64) (int, error)

func (f readerFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }
