package view

import (
	"io/fs"
	"time"

	"durafs/runs"
)

const modeDir = fs.ModeDir

// Attr tells what is known of a node. A node that stands for nothing is
// ErrNotExist; a log of an earlier generation, and what was of a run that is
// gone, ErrStale.
func (v *View) Attr(n Node) (Attr, error) {
	a := Attr{Node: n, Type: n.Type()}
	switch n.Kind() {
	case KindFixed:
		return v.fixedAttr(a)
	case KindDay:
		b, ok := v.days.bucket(v.src, n.day())
		if !ok || n != dayDir(n.day()) {
			return Attr{}, ErrNotExist
		}
		a.Mtime, a.Live = b.mtime, true
		return a, nil
	}
	r, err := v.info(n)
	if err != nil {
		return Attr{}, err
	}
	return v.runAttr(a, r)
}

func (v *View) fixedAttr(a Attr) (Attr, error) {
	switch a.Node {
	case StatusFile:
		a.Size = int64(len(v.status()))
	case Root, RunsDir, ByDayDir:
	default:
		return Attr{}, ErrNotExist
	}
	a.Mtime, a.Live = v.admitted.last(v.src), true
	return a, nil
}

// runAttr fills in what belongs to a run of which r is known.
func (v *View) runAttr(a Attr, r runs.Run) (Attr, error) {
	n := a.Node
	a.Mtime, a.Live = r.ChangedAt, !r.Sealed()
	switch {
	case n == RunDir(r.Ref), n == PayloadsDir(r.Ref):
		return a, nil
	case n == RecordFile(r.Ref):
		return v.recordAttr(a)
	case n == LateFile(r.Ref):
		if a.Size = r.LateBytes; r.LateBytes == 0 {
			return Attr{}, ErrNotExist
		}
		return a, nil
	case n.Kind() == KindLog:
		return logAttr(a, r)
	case n == dayLink(r.Ref):
		a.Size, a.Mtime, a.Live = int64(len(linkTarget(r))), r.StartedAt, false
		return a, nil
	case n.Kind() == KindPayload && n == PayloadFile(r.Ref, n.file()):
		p, err := v.payloadByOrdinal(r, n.file())
		if err != nil {
			return Attr{}, err
		}
		return payloadAttr(r.Ref, p), nil
	}
	return Attr{}, ErrNotExist
}

func (v *View) recordAttr(a Attr) (Attr, error) {
	text, err := v.record(a.Node.run())
	if err != nil {
		return Attr{}, err
	}
	a.Size = int64(len(text))
	return a, nil
}

func logAttr(a Attr, r runs.Run) (Attr, error) {
	switch want := LogFile(r.Ref, r.Generation); {
	case a.Node == want:
	case a.Node.run() == r.Ref && a.Node < want:
		return Attr{}, ErrStale
	default:
		return Attr{}, ErrNotExist
	}
	a.Size, a.Sealed = r.LogBytes, r.Sealed()
	return a, nil
}

func payloadAttr(ref runs.Ref, p runs.PayloadInfo) Attr {
	return Attr{Node: PayloadFile(ref, p.Ordinal), Size: p.Bytes, Mtime: p.At, Sealed: true}
}

// Readlink tells where a link points to.
func (v *View) Readlink(n Node) (string, error) {
	if n.Type() != fs.ModeSymlink {
		return "", ErrNotLink
	}
	r, err := v.info(n)
	if err != nil {
		return "", err
	}
	return linkTarget(r), nil
}

func linkTarget(r runs.Run) string { return "../../runs/" + r.ID }

// Permissions of the tree as its owner sees it; nobody writes.
const (
	dirPerm  fs.FileMode = 0o500
	filePerm fs.FileMode = 0o400
	linkPerm fs.FileMode = 0o777
)

// Mode is the node's complete file mode.
func (a Attr) Mode() fs.FileMode {
	switch a.Type {
	case fs.ModeDir:
		return a.Type | dirPerm
	case fs.ModeSymlink:
		return a.Type | linkPerm
	}
	return filePerm
}

// mtime is never before 1970, which some readers cannot say.
func (a Attr) mtime() time.Time {
	if a.Mtime.Unix() < 0 {
		return time.Unix(0, 0).UTC()
	}
	return a.Mtime
}
