package server

import "sync"

// copyBytes is the size of the buffers that bodies go through.
const copyBytes = 256 << 10

var buffers = sync.Pool{New: func() any {
	b := make([]byte, copyBytes)
	return &b
}}

func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

func giveBuffer(b *[]byte) { buffers.Put(b) }
