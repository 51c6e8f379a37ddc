package vfs

// Whole is the part of a call that a Hook asks for when it wants all of it.
const Whole = int64(-1)

// A Hook stands around each call. It may look at the call, make it by calling
// do (Whole, or only the first bytes of a read or write), wait, and return the
// call's error or another. It is called concurrently.
type Hook func(c Call, do func(part int64) error) error

// Hooked is inner with hook around every call to it and to what it opens.
// Recorder and Faulty are hooks; a test can write its own, say to hold a
// barrier open until it has looked at the state in between.
func Hooked(inner FS, hook Hook) FS { return hookedFS{inner, hook} }

type hookedFS struct {
	inner FS
	hook  Hook
}

// around runs fn inside the hook and returns its value, or the zero value
// where the hook returned an error. A value that was opened under an error of
// the hook's own is closed again: the caller has nothing to close.
func around[T any](h Hook, c Call, fn func() (T, error)) (T, error) {
	var v, none T
	done := false
	err := h(c, func(int64) (err error) {
		v, err = fn()
		done = err == nil
		return err
	})
	if err == nil {
		return v, nil
	}
	if done {
		if cl, ok := any(v).(interface{ Close() error }); ok {
			cl.Close()
		}
	}
	return none, err
}

func (h hookedFS) file(op Op, name string, open func(string) (File, error)) (File, error) {
	f, err := around(h.hook, Call{Op: op, Name: name}, func() (File, error) { return open(name) })
	if err != nil {
		return nil, err
	}
	return &hookedFile{f, h.hook}, nil
}

func (h hookedFS) Create(name string) (File, error) {
	return h.file(OpCreate, name, h.inner.Create)
}

func (h hookedFS) Open(name string) (File, error) {
	return h.file(OpOpen, name, h.inner.Open)
}

func (h hookedFS) OpenWrite(name string) (File, error) {
	return h.file(OpOpenWrite, name, h.inner.OpenWrite)
}

func (h hookedFS) OpenDir(name string) (Dir, error) {
	d, err := around(h.hook, Call{Op: OpOpenDir, Name: name}, func() (Dir, error) { return h.inner.OpenDir(name) })
	if err != nil {
		return nil, err
	}
	return &hookedDir{d, name, h.hook}, nil
}

func (h hookedFS) Mkdir(name string) error {
	return h.hook(Call{Op: OpMkdir, Name: name}, func(int64) error { return h.inner.Mkdir(name) })
}

func (h hookedFS) Rename(oldname, newname string) error {
	return h.hook(Call{Op: OpRename, Name: oldname, To: newname}, func(int64) error {
		return h.inner.Rename(oldname, newname)
	})
}

func (h hookedFS) Remove(name string) error {
	return h.hook(Call{Op: OpRemove, Name: name}, func(int64) error { return h.inner.Remove(name) })
}

func (h hookedFS) ReadDir(name string) ([]string, error) {
	return around(h.hook, Call{Op: OpReadDir, Name: name}, func() ([]string, error) { return h.inner.ReadDir(name) })
}

func (h hookedFS) Stat(name string) (Info, error) {
	return around(h.hook, Call{Op: OpStat, Name: name}, func() (Info, error) { return h.inner.Stat(name) })
}

func (h hookedFS) Usage(name string) (Usage, error) {
	return around(h.hook, Call{Op: OpUsage, Name: name}, func() (Usage, error) { return h.inner.Usage(name) })
}

type hookedFile struct {
	inner File
	hook  Hook
}

// Name makes no system call, so the hook does not see it.
func (f *hookedFile) Name() string { return f.inner.Name() }

// transfer runs a read or write of p, or of its first bytes, inside the hook.
func (f *hookedFile) transfer(op Op, fn func([]byte, int64) (int, error), p []byte, off int64) (n int, err error) {
	err = f.hook(Call{Op: op, Name: f.Name(), Off: off, Len: int64(len(p))}, func(part int64) (err error) {
		if part == Whole || part > int64(len(p)) {
			part = int64(len(p))
		}
		n, err = fn(p[:part], off)
		return err
	})
	return n, err
}

func (f *hookedFile) ReadAt(p []byte, off int64) (int, error) {
	return f.transfer(OpRead, f.inner.ReadAt, p, off)
}

func (f *hookedFile) ReadUncachedAt(p []byte, off int64) (int, error) {
	return f.transfer(OpReadUncached, f.inner.ReadUncachedAt, p, off)
}

func (f *hookedFile) WriteAt(p []byte, off int64) (int, error) {
	return f.transfer(OpWrite, f.inner.WriteAt, p, off)
}

func (f *hookedFile) Datasync() error {
	return f.hook(Call{Op: OpDatasync, Name: f.Name()}, func(int64) error { return f.inner.Datasync() })
}

func (f *hookedFile) WriteBehind(off, n int64) error {
	return f.hook(Call{Op: OpWriteBehind, Name: f.Name(), Off: off, Len: n}, func(int64) error {
		return f.inner.WriteBehind(off, n)
	})
}

func (f *hookedFile) Truncate(size int64) error {
	return f.hook(Call{Op: OpTruncate, Name: f.Name(), Len: size}, func(int64) error {
		return f.inner.Truncate(size)
	})
}

func (f *hookedFile) Size() (int64, error) {
	return around(f.hook, Call{Op: OpSize, Name: f.Name()}, f.inner.Size)
}

// Close always gives the descriptor back, as close(2) does on Linux whatever
// it returns.
func (f *hookedFile) Close() error {
	return closing(f.hook, Call{Op: OpClose, Name: f.Name()}, f.inner.Close)
}

type hookedDir struct {
	inner Dir
	name  string
	hook  Hook
}

func (d *hookedDir) Sync() error {
	return d.hook(Call{Op: OpDirSync, Name: d.name}, func(int64) error { return d.inner.Sync() })
}

func (d *hookedDir) Close() error {
	return closing(d.hook, Call{Op: OpDirClose, Name: d.name}, d.inner.Close)
}

func closing(h Hook, c Call, fn func() error) error {
	done := false
	err := h(c, func(int64) error {
		done = true
		return fn()
	})
	if !done {
		fn()
	}
	return err
}
