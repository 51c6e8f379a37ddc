package projection

// A number is kept as it is written, but it has to be one that a reader of
// doubles can hold: 1e400 would become infinity there, which JSON cannot say.
// What is too small becomes zero and is kept.

// infinite is half way between the largest double and the next power of two,
// which is where rounding to a double first gives infinity: 2^1024 − 2^970.
const infinite = "179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904174497792"

// finite reports whether a valid number, of any length, is finite as a double.
// It compares digits and needs no arithmetic: with D digits from the first that
// is not zero up to the point, and the exponent e, the number has D+e digits
// before the point, and infinite has 309.
func finite(number []byte) bool {
	if len(number) < len(infinite) && !hasExponent(number) {
		return true
	}
	mantissa, exponent := splitExponent(number)
	lead, point := -1, len(mantissa) // the first digit that is not zero; the point
	for i, c := range mantissa {
		switch {
		case c == '.':
			point = i
		case c >= '1' && c <= '9' && lead < 0:
			lead = i
		}
	}
	if lead < 0 {
		return true // zero
	}
	n := point - lead + exponent
	if lead > point {
		n++ // the point is no digit
	}
	if n != len(infinite) {
		return n < len(infinite)
	}
	return below(mantissa[lead:], infinite)
}

func hasExponent(number []byte) bool {
	for _, c := range number {
		if c|0x20 == 'e' {
			return true
		}
	}
	return false
}

// exponentMax is above every exponent that matters, and far below overflow: a
// mantissa has at most CandidateBytesMax digits.
const exponentMax = 1 << 30

func splitExponent(number []byte) (mantissa []byte, exponent int) {
	for i, c := range number {
		if c|0x20 != 'e' {
			continue
		}
		digits, sign := number[i+1:], 1
		switch digits[0] {
		case '-':
			digits, sign = digits[1:], -1
		case '+':
			digits = digits[1:]
		}
		for _, d := range digits {
			exponent = min(exponent*10+int(d-'0'), exponentMax)
		}
		return number[:i], sign * exponent
	}
	return number, 0
}

// below compares the digits of a mantissa, from its first that is not zero on
// and zeros behind them, with those of a whole number of as many digits.
func below(mantissa []byte, than string) bool {
	i := 0
	for _, c := range mantissa {
		if c == '.' {
			continue
		}
		if i == len(than) {
			return false // it was the same so far
		}
		if c != than[i] {
			return c < than[i]
		}
		i++
	}
	for ; i < len(than); i++ {
		if than[i] != '0' {
			return true
		}
	}
	return false
}
