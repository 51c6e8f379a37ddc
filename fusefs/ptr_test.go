package fusefs_test

import "unsafe"

// ptr is the address of a field in a record of getdents.
func ptr(b []byte, at int) unsafe.Pointer { return unsafe.Pointer(&b[at]) }
