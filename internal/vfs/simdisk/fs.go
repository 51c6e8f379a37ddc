package simdisk

import (
	"os"
	"strings"
	"syscall"

	"durafs/internal/vfs"
)

const ext4Magic = 0xef53

// Create implements vfs.FS.
func (d *Disk) Create(name string) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := vfs.Call{Op: vfs.OpCreate, Name: name}
	failed, do := d.begin(c).fails(c)
	parent, n, base, err := d.place(name)
	switch {
	case failed != nil && !do:
		return nil, d.note(c, failed)
	case err == nil && n != nil:
		err = syscall.EEXIST
	}
	if err != nil {
		return nil, d.note(c, pathError(c, err))
	}
	n = d.addNode(false)
	d.changeNames(c, nameOp{node: n, toDir: parent, toName: base}, failed)
	if failed != nil {
		return nil, failed
	}
	return d.handle(n, name, true), nil
}

// Open implements vfs.FS.
func (d *Disk) Open(name string) (vfs.File, error) { return d.open(vfs.OpOpen, name, false) }

// OpenWrite implements vfs.FS.
func (d *Disk) OpenWrite(name string) (vfs.File, error) { return d.open(vfs.OpOpenWrite, name, true) }

func (d *Disk) open(op vfs.Op, name string, write bool) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.named(vfs.Call{Op: op, Name: name})
	if err != nil {
		return nil, err
	}
	if n.dir {
		return nil, pathError(vfs.Call{Op: op, Name: name}, syscall.EISDIR)
	}
	return d.handle(n, name, write), nil
}

// OpenDir implements vfs.FS.
func (d *Disk) OpenDir(name string) (vfs.Dir, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := vfs.Call{Op: vfs.OpOpenDir, Name: name}
	n, err := d.named(c)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, pathError(c, syscall.ENOTDIR)
	}
	n.open++
	d.handles++
	return &dir{handle{d: d, n: n, name: name, gen: d.gen}}, nil
}

// Mkdir implements vfs.FS.
func (d *Disk) Mkdir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := vfs.Call{Op: vfs.OpMkdir, Name: name}
	failed, do := d.begin(c).fails(c)
	parent, n, base, err := d.place(name)
	switch {
	case failed != nil && !do:
		return d.note(c, failed)
	case err == nil && n != nil:
		err = syscall.EEXIST
	}
	if err != nil {
		return d.note(c, pathError(c, err))
	}
	d.changeNames(c, nameOp{node: d.addNode(true), toDir: parent, toName: base}, failed)
	return failed
}

// Rename implements vfs.FS.
func (d *Disk) Rename(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := vfs.Call{Op: vfs.OpRename, Name: oldname, To: newname}
	failed, do := d.begin(c).fails(c)
	if failed != nil && !do {
		return d.note(c, failed)
	}
	op, replaced, err := d.renameOp(oldname, newname)
	if err != nil {
		return d.note(c, &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err})
	}
	if replaced == op.node {
		return failed // two names of one file: nothing happens
	}
	if replaced != nil {
		replaced.links--
	}
	d.changeNames(c, op, failed)
	d.reap(replaced)
	return failed
}

func (d *Disk) renameOp(oldname, newname string) (op nameOp, replaced *node, err error) {
	op.fromDir, op.node, op.fromName, err = d.place(oldname)
	if err != nil {
		return op, nil, err
	}
	if op.node == nil {
		return op, nil, syscall.ENOENT
	}
	op.toDir, replaced, op.toName, err = d.place(newname)
	switch {
	case err != nil:
	case replaced == nil:
	case replaced.dir:
		err = syscall.EISDIR
	case op.node.dir:
		err = syscall.ENOTDIR
	}
	return op, replaced, err
}

// Link gives a file a second name, as somebody beside the program may.
func (d *Disk) Link(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := vfs.Call{Op: vfs.OpCreate, Name: newname}
	_, n, _, err := d.place(oldname)
	if err != nil || n == nil || n.dir {
		return pathError(c, syscall.ENOENT)
	}
	parent, there, base, err := d.place(newname)
	if err != nil || there != nil {
		return pathError(c, syscall.EEXIST)
	}
	d.changeNames(c, nameOp{node: n, toDir: parent, toName: base}, nil)
	return nil
}

// Remove implements vfs.FS.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := vfs.Call{Op: vfs.OpRemove, Name: name}
	failed, do := d.begin(c).fails(c)
	parent, n, base, err := d.place(name)
	switch {
	case failed != nil && !do:
		return d.note(c, failed)
	case err != nil:
	case n == nil:
		err = syscall.ENOENT
	case parent == nil:
		err = syscall.EBUSY // the root
	case n.dir && len(n.entries) > 0:
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return d.note(c, pathError(c, err))
	}
	d.changeNames(c, nameOp{node: n, fromDir: parent, fromName: base}, failed)
	d.reap(n)
	return failed
}

// ReadDir implements vfs.FS.
func (d *Disk) ReadDir(name string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := vfs.Call{Op: vfs.OpReadDir, Name: name}
	n, err := d.named(c)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, pathError(c, syscall.ENOTDIR)
	}
	names := make([]string, len(n.entries))
	for i, e := range n.entries {
		names[i] = e.name
	}
	return names, nil
}

// Stat implements vfs.FS.
func (d *Disk) Stat(name string) (vfs.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.named(vfs.Call{Op: vfs.OpStat, Name: name})
	if err != nil {
		return vfs.Info{}, err
	}
	return vfs.Info{Size: n.now.size, IsDir: n.dir, Links: uint64(max(n.links, 1))}, nil
}

// Usage implements vfs.FS.
func (d *Disk) Usage(name string) (vfs.Usage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.named(vfs.Call{Op: vfs.OpUsage, Name: name}); err != nil {
		return vfs.Usage{}, err
	}
	u := vfs.Usage{Mount: "/", Type: d.opts.FSType, SizeBytes: 1 << 40, FreeBytes: 1 << 39, FreeInodes: -1}
	if u.Type == 0 {
		u.Type = ext4Magic
	}
	if d.opts.CapacityBytes > 0 {
		u.SizeBytes, u.FreeBytes = d.opts.CapacityBytes, max(d.room(), 0)
	}
	return u, nil
}

// named is what a name stands for, for a call that changes nothing.
func (d *Disk) named(c vfs.Call) (*node, error) {
	if f := d.begin(c); f != nil && !f.Done {
		return nil, pathError(c, f.Err)
	} else if f != nil {
		return nil, pathError(c, f.Err) // whether a read was made makes no difference
	}
	_, n, _, err := d.place(c.Name)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	if err != nil {
		return nil, pathError(c, err)
	}
	return n, nil
}

// place finds the directory that holds a name, and what stands there, if
// anything does.
func (d *Disk) place(path string) (parent, n *node, base string, err error) {
	parent, n, base, notDir := d.walk(path)
	switch {
	case notDir:
		return nil, nil, "", syscall.ENOTDIR
	case parent == nil && n == nil:
		return nil, nil, "", syscall.ENOENT
	case strings.HasSuffix(path, "/") && n != nil && !n.dir:
		return nil, nil, "", syscall.ENOTDIR
	}
	return parent, n, base, nil
}

func (d *Disk) changeNames(c vfs.Call, op nameOp, failed error) {
	d.record(c, failed, journalEntry{kind: entryNames, names: op})
	d.rename(&op)
}
