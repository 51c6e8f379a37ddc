//go:build !race

package projection

// poolKeeps says that what is put into a pool is there again.
const poolKeeps = true
