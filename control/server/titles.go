package server

import (
	"strings"

	"durafs/control"
)

// titles are for people; a code without one is its own title.
var titles = map[string]string{
	control.CodeNoRoute:         "There is no such route",
	control.CodeMethod:          "The route does not take this method",
	control.CodeBadPath:         "The path is not one",
	control.CodeBadJSON:         "The body is not JSON",
	control.CodeUnknownField:    "The body has an unknown field",
	control.CodeDuplicateName:   "The body has a name twice",
	control.CodeTrailingBytes:   "The body goes on behind its JSON value",
	control.CodeTooDeep:         "The body is nested too deep",
	control.CodeBadField:        "A field has the wrong kind of value",
	control.CodeBadQuery:        "A parameter of the query is wrong",
	control.CodeBadHeader:       "A header is wrong",
	control.CodeContentType:     "The body is of the wrong content type",
	control.CodeBodyTooLarge:    "The body is too large",
	control.CodeRowTooLarge:     "The row is too large",
	control.CodeSlowSender:      "The body stopped coming",
	control.CodeBodyIncomplete:  "The body is not whole",
	control.CodeNotOwner:        "Only an owner may do this",
	control.CodeWriterNeeded:    "A writer token is needed",
	control.CodeResumeNeeded:    "A resume token is needed",
	control.CodeTooManyRequests: "Too much is open",
	control.CodeShuttingDown:    "The daemon is going down",
	control.CodeDegraded:        "The daemon is degraded",
	control.CodeBusy:            "The daemon is busy",
	control.CodeNoSpace:         "There is no space left",
	control.CodeReadOnly:        "The store can only be read",
	control.CodePoisoned:        "The store takes no more writes",
	control.CodeWriteFailed:     "The disk did not take a write",
	control.CodeOutcomeUnknown:  "The outcome is not known",
	control.CodeDamaged:         "The store is damaged",
	control.CodeInternal:        "The daemon failed",
	control.CodeRange:           "The range is not in the payload",
}

// titleOf is a code's title: attach-required is "Attach required".
func titleOf(code string) string {
	if t := titles[code]; t != "" {
		return t
	}
	if code == "" {
		return ""
	}
	return strings.ToUpper(code[:1]) + strings.ReplaceAll(code[1:], "-", " ")
}
