package runs

import "durafs/projection"

// sameness is equal for JSON texts that say the same: blanks, the order of
// names and the spelling of strings do not count, the digits of a number do. It
// is not JSON's to say that 1 and 1.0 are one outcome.
func sameness(text []byte) string { return hexB3(projection.AppendSaid(nil, text))[:32] }
