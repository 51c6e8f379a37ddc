package view

// ReadFull is readFull, and Render render.
var (
	ReadFull = readFull
	Render   = render
)

// MemoWeightMax is memoWeightMax.
const MemoWeightMax = memoWeightMax

// Memo is a memo.
type Memo struct{ memo[int, int] }

// NewMemo makes an empty one.
func NewMemo() *Memo { return new(Memo) }

// Get is get.
func (m *Memo) Get(key int, make func() (int, error), weight func(int) int64) (int, error) {
	return m.get(key, make, weight)
}

// Weight is what all that is kept weighs.
func (m *Memo) Weight() (n int64) {
	for i := range m.slots {
		n += m.slots[i].weight
	}
	return n
}
