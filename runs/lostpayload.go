package runs

import (
	"strconv"
	"strings"
)

// lostName begins the name under which a payload is listed whose entry cannot
// be read: its ordinal follows. It cannot be opened.
const lostName = ".damaged-"

func lostPayload(ordinal uint32) PayloadInfo {
	return PayloadInfo{Name: lostName + strconv.FormatUint(uint64(ordinal), 10), Source: SourceNamed, Ordinal: ordinal}
}

// findLost finds a payload by the name that it has because it is lost.
func (s *Store) findLost(num uint32, name string) (info PayloadInfo, ok bool) {
	digits, ok := strings.CutPrefix(name, lostName)
	if !ok {
		return info, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || lostPayload(uint32(n)).Name != name {
		return info, false
	}
	places, _, _, _, err := s.payloadPlaces(num)
	if err != nil {
		return info, false
	}
	if n >= uint64(len(places)) {
		return info, false
	}
	if places[n] == deletedPlace {
		return info, false
	}
	if places[n] != (place{}) {
		if _, err := s.readPayload(places[n]); !isDamage(err) {
			return info, false
		}
	}
	return lostPayload(uint32(n)), true
}
