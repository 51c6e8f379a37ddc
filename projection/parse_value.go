package projection

import "durafs/internal/jsonscan"

// json walks the value of a json part.
func (p *parser) json(d *part) bool {
	p.blanks = 0
	d.text.from = p.at
	if !p.value(1) {
		return false
	}
	d.text.to = p.at
	d.size = d.text.to - d.text.from - p.blanks
	d.same = p.blanks == 0
	return true
}

// value walks any JSON value at this depth.
func (p *parser) value(depth int) bool {
	if depth > DepthMax {
		return p.over(TooDeep, p.at, int64(depth), DepthMax)
	}
	if p.nodes++; p.nodes > NodesMax {
		return p.over(TooManyNodes, p.at, int64(p.nodes), NodesMax)
	}
	from, end := p.at, -1
	switch c := p.peek(); {
	case c == '"':
		end, _ = jsonscan.String(p.src, from)
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '-' || '0' <= c && c <= '9':
		if end = jsonscan.Number(p.src, from); end >= 0 && !finite(p.src[from:end]) {
			return p.fail(NotFinite, from)
		}
	default:
		end = jsonscan.Word(p.src, from)
	}
	if end < 0 {
		return p.fail(NotJSON, from)
	}
	p.at = end
	return true
}

func (p *parser) array(depth int) bool {
	p.at++
	if p.gap() == ']' {
		p.at++
		return true
	}
	for p.value(depth + 1) {
		switch p.gap() {
		case ']':
			p.at++
			return true
		case ',':
			p.at++
			p.gap()
		default:
			return p.fail(NotJSON, p.at)
		}
	}
	return false
}

func (p *parser) object(depth int) bool {
	p.at++
	if p.gap() == '}' {
		p.at++
		return true
	}
	base := len(p.names.open)
	for p.member(depth) {
		switch p.gap() {
		case '}':
			p.at++
			if at := p.names.twice(p.src, base); at >= 0 {
				return p.fail(DuplicateName, at)
			}
			p.names.open = p.names.open[:base]
			return true
		case ',':
			p.at++
			p.gap()
		default:
			return p.fail(NotJSON, p.at)
		}
	}
	return false
}

func (p *parser) member(depth int) bool {
	from := p.at
	if p.peek() != '"' {
		return p.fail(NotJSON, from)
	}
	end, escaped := jsonscan.String(p.src, from)
	if end < 0 {
		return p.fail(NotJSON, from)
	}
	p.names.open = append(p.names.open, name{uint32(from), uint32(end), escaped})
	p.at = end
	if p.gap() != ':' {
		return p.fail(NotJSON, p.at)
	}
	p.at++
	p.gap()
	return p.value(depth + 1)
}

// gap passes over white space and counts it. It is the byte behind.
func (p *parser) gap() byte {
	if p.at < len(p.src) && p.src[p.at] > ' ' {
		return p.src[p.at]
	}
	from := p.at
	p.blanks += p.blank() - from
	return p.peek()
}
