package projection

import (
	"bytes"
	"strings"
)

// MediaType is the type of an image, in its canonical spelling.
type MediaType string

// The types there are. A format that can hold a script or refer to something
// outside of itself (SVG) is not among them.
const (
	PNG  MediaType = "image/png"
	JPEG MediaType = "image/jpeg"
	GIF  MediaType = "image/gif"
	WebP MediaType = "image/webp"
)

// HeadBytes is how many of an image's first bytes its signature may reach into.
const HeadBytes = 12

// mediaTypeBytesMax is longer than every spelling of a type.
const mediaTypeBytesMax = 16

// ParseMediaType is the canonical type that a candidate means: upper case is
// folded, and image/jpg is image/jpeg.
func ParseMediaType(s string) (MediaType, bool) {
	if len(s) > mediaTypeBytesMax {
		return JPEG, false
	}
	s = strings.ToLower(s)
	for _, m := range [...]MediaType{PNG, JPEG, GIF, WebP} {
		if s == string(m) {
			return m, true
		}
	}
	return JPEG, s == "image/jpg"
}

// Matches reports whether an image of type m begins so. head is the image, or
// its first HeadBytes.
func (m MediaType) Matches(head []byte) bool {
	switch m {
	case PNG:
		return bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n"))
	case JPEG:
		return bytes.HasPrefix(head, []byte("\xff\xd8\xff"))
	case GIF:
		return bytes.HasPrefix(head, []byte("GIF87a")) || bytes.HasPrefix(head, []byte("GIF89a"))
	case WebP:
		return len(head) >= HeadBytes && bytes.HasPrefix(head, []byte("RIFF")) && string(head[8:12]) == "WEBP"
	}
	return false
}
