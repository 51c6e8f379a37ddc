package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"durafs/cas"
	"durafs/internal/vfs"
	"durafs/runs"
	"durafs/wal"
)

// VerifyOptions say how much to look at. The zero value verifies a store of
// the operating system.
type VerifyOptions struct {
	FS vfs.FS // nil: vfs.OS
	// Deep also decodes every chunk and compares it with its id, and works what
	// the log's footers say out again.
	Deep bool
	// Progress is told what is being looked at now; nil: nobody is.
	Progress func(what string)
}

// Finding is one piece of damage.
type Finding struct {
	// File is relative to the store's directory.
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	// LSNFrom to LSNTo are the batches that are harmed; 0 if none is.
	LSNFrom uint64 `json:"lsn_from,omitempty"`
	LSNTo   uint64 `json:"lsn_to,omitempty"`
	// Run is the run that is harmed, by its id; where the log does not say
	// that any more, RunNumber alone tells it from others. Both are empty where
	// nobody can tell.
	Run       string `json:"run,omitempty"`
	RunNumber uint64 `json:"run_number,omitempty"`
	// ID is the chunk or payload that is harmed, "" if not known.
	ID     string `json:"id,omitempty"`
	Reason string `json:"reason"`
}

func (f Finding) String() string {
	s := fmt.Sprintf("%s: offset %d: %s", f.File, f.Offset, f.Reason)
	if f.LSNFrom > 0 {
		s += fmt.Sprintf(" (LSN %d to %d)", f.LSNFrom, f.LSNTo)
	}
	switch {
	case f.Run != "":
		s += " (run " + f.Run + ")"
	case f.RunNumber != 0:
		s += fmt.Sprintf(" (run number %d, whose id is lost)", f.RunNumber)
	}
	if f.ID != "" {
		s += " (id " + f.ID + ")"
	}
	return s
}

// Verified tells what Verify looked at.
type Verified struct {
	Segments int    `json:"segments"`
	Batches  uint64 `json:"batches"`
	Packs    int    `json:"packs"`
	Records  int64  `json:"records"`
	Bytes    int64  `json:"bytes"`
	Findings int    `json:"findings"`
	// Dangling are references to payloads of which no pack has all; each is a
	// finding too.
	Dangling int `json:"dangling"`
	// Unreferenced are records in packs that nothing in the log refers to, and
	// their bytes: no damage, but room that nobody uses. Beside a daemon what is
	// on its way is among them.
	UnreferencedRecords int64 `json:"unreferenced_records"`
	UnreferencedBytes   int64 `json:"unreferenced_bytes"`
}

// Verify checks every header, frame, record and footer of the store in dir,
// the hashes of what is sealed, and that every payload which the log refers to
// is in a pack, and reports each piece of damage. It writes
// nothing and takes no lock: it may run beside a daemon that has the store
// open.
//
// The error is for what could not be checked; damage is reported instead.
func Verify(ctx context.Context, dir string, opt VerifyOptions, report func(Finding)) (Verified, error) {
	if opt.FS == nil {
		opt.FS = vfs.OS
	}
	v := verifier{dir: dir, opt: opt, report: report, wanted: map[cas.ID]wanted{}, deleted: map[payloadName]bool{}}
	err := v.run(ctx)
	return v.sum, err
}

type verifier struct {
	dir    string
	opt    VerifyOptions
	report func(Finding)
	sum    Verified
	// wanted are the payloads that the log refers to, census the records that
	// are sound, and inPacks is what was found in packs.
	wanted  map[cas.ID]wanted
	census  cas.Census
	inPacks []cas.Finding
	// harmed are findings whose run is known by its number only, until the log
	// has been looked through for its id.
	harmed []Finding
	// named are the batches whose references were reported.
	named map[batchPlace]bool
	// deleted are payloads that nobody can read any more, whatever refers to them;
	// last is the batch up to which both were noted.
	deleted map[payloadName]bool
	last    uint64
	// began is the LSN that the log began behind.
	began uint64
	// emptying: a reset has come as far as its commit point, and the next open
	// removes what is there.
	emptying bool
}

func (v *verifier) run(ctx context.Context) error {
	return errors.Join(v.check(ctx), v.nameHarmed(ctx))
}

func (v *verifier) check(ctx context.Context) error {
	v.progress(configName)
	if err := v.config(); err != nil || v.emptying {
		return err
	}
	v.progress("the log")
	packs, err := v.log(ctx)
	if err != nil {
		return err
	}
	if v.opt.Deep {
		v.progress("the log's footers")
		if err := v.footers(ctx); err != nil {
			return err
		}
	}
	return v.payloads(ctx, packs)
}

// log checks the log, notes what it refers to, and tells which packs there
// are.
func (v *verifier) log(ctx context.Context) ([]cas.Pack, error) {
	log, err := wal.Verify(ctx, v.opt.FS, filepath.Join(v.dir, walName), v.batch, func(f wal.Finding) {
		v.addOf(Finding{File: v.name(walName, f.File), Offset: f.Offset, LSNFrom: f.LSNFrom, LSNTo: f.LSNTo, RunNumber: f.Run, Reason: f.Reason})
	})
	v.sum.Segments, v.sum.Batches, v.sum.Bytes = log.Segments, log.Batches, log.Bytes
	if log.Packs != nil || err != nil {
		return casPacks(log.Packs), err
	}
	// The manifest is lost, or there is no pack.
	return cas.Found(v.opt.FS, filepath.Join(v.dir, casName), log.StoreID)
}

// footers has what the log's footers say worked out again.
func (v *verifier) footers(ctx context.Context) error {
	var check runs.FooterCheck
	return wal.VerifyFooters(ctx, v.opt.FS, filepath.Join(v.dir, walName), v.began, check.Segment, func(f wal.Finding) {
		v.add(Finding{File: v.name(walName, f.File), Offset: f.Offset, Reason: f.Reason})
	})
}

// addOf reports a finding; where it harms a run, when its id is known.
func (v *verifier) addOf(f Finding) {
	if f.RunNumber == 0 {
		v.add(f)
		return
	}
	v.harmed = append(v.harmed, f)
}

// nameHarmed looks for the ids of the runs that are harmed, and reports them.
func (v *verifier) nameHarmed(ctx context.Context) error {
	if len(v.harmed) == 0 {
		return nil
	}
	names := map[uint64]string{}
	for _, f := range v.harmed {
		names[f.RunNumber] = ""
	}
	_, err := wal.Verify(ctx, v.opt.FS, filepath.Join(v.dir, walName), func(f wal.Frame) error {
		of, err := runs.Names(f.Payload)
		for num, id := range of {
			if _, harmed := names[uint64(num)]; harmed && err == nil {
				names[uint64(num)] = id
			}
		}
		return nil
	}, func(wal.Finding) {})
	for _, f := range v.harmed {
		f.Run = names[f.RunNumber]
		v.add(f)
	}
	v.harmed = nil
	return err
}

// batch notes the payloads that a batch refers to.
func (v *verifier) batch(f wal.Frame) error {
	refs, err := runs.References(f.Payload)
	if err != nil {
		v.addOf(Finding{File: segmentFile(f.Pos), Offset: int64(f.Pos.Offset), LSNFrom: f.LSN, LSNTo: f.LSN, RunNumber: f.Run, Reason: err.Error()})
	}
	if f.LSN <= v.last {
		return nil // it has come before
	}
	v.last = f.LSN
	for _, r := range refs {
		w := v.wanted[r.ID]
		v.wanted[r.ID] = wanted{r.Ref, w.count + 1}
	}
	gone, _ := runs.Deletions(f.Payload) // an error was told above
	for _, d := range gone {
		v.deleted[payloadName{d.Run, d.Name}] = true
		if w, ok := v.wanted[d.ID]; ok && !d.Inline {
			if w.count--; w.count == 0 {
				delete(v.wanted, d.ID)
			} else {
				v.wanted[d.ID] = w
			}
		}
	}
	return nil
}

// wanted is a payload that the log refers to, and how often.
type wanted struct {
	cas.Ref
	count int
}

func segmentFile(at wal.Position) string {
	return filepath.Join(walName, fmt.Sprintf("%010d.seg", at.Segment))
}

func (v *verifier) packs(ctx context.Context, packs []cas.Pack) error {
	sum, err := cas.Verify(ctx, v.opt.FS, filepath.Join(v.dir, casName), packs, v.opt.Deep, &v.census, func(f cas.Finding) {
		v.inPacks = append(v.inPacks, f)
		if !f.Gone { // of that more is known when references were followed
			v.addPack(f)
		}
	})
	v.sum.Packs, v.sum.Records = sum.Packs, sum.Records
	v.sum.Bytes += sum.Bytes
	return err
}

func (v *verifier) addPack(f cas.Finding) {
	found := Finding{File: v.name(casName, f.File), Offset: f.Offset, Reason: f.Reason}
	if f.ID != (cas.ID{}) {
		found.ID = f.ID.String()
	}
	v.add(found)
}

// config checks store.json. Without it nothing else can be judged.
func (v *verifier) config() error {
	c, err := readConfig(v.opt.FS, v.dir, configName)
	v.began, v.emptying = c.began().LSN, c.emptying()
	var damaged *ConfigError
	switch {
	case errors.As(err, &damaged):
		v.add(Finding{File: configName, Reason: damaged.Reason})
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not a durafs store: it has no %s", v.dir, configName)
	}
	return err
}

func (v *verifier) progress(what string) {
	if v.opt.Progress != nil {
		v.opt.Progress(what)
	}
}

func (v *verifier) add(f Finding) {
	v.sum.Findings++
	v.report(f)
}

// name is a file's name below the store's directory.
func (v *verifier) name(sub, file string) string { return filepath.Join(sub, filepath.Base(file)) }
