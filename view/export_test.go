package view

// ReadFull is readFull.
var ReadFull = readFull
