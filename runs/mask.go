package runs

import "regexp"

// PreviewBytesMax bounds the preview of a task in the record.
const PreviewBytesMax = 512

// previewScanMax is how much of a task is looked at for a preview.
const previewScanMax = 8 << 10

// masked are common forms of credentials. This guards against accidents in a
// preview that is shown in lists; it is no scrubber of secrets in general.
var masked = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`(?i)\b([a-z0-9_.-]*(?:api[_-]?key|secret|token|passwd|password|credentials?))["']?\s*[:=]\s*["']?[^\s"',;]{4,}`),
	regexp.MustCompile(`\b(sk|pk|rk)[-_][A-Za-z0-9_-]{16,}`),
	regexp.MustCompile(`\b(gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|hf_)[A-Za-z0-9_-]{8,}`),
	regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{12,}`),
	regexp.MustCompile(`\b(AIza)[A-Za-z0-9_-]{20,}`),
	regexp.MustCompile(`\b(eyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?`),
	regexp.MustCompile(`(?s)(-----BEGIN) [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`),
	regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^\s/:@]+):[^\s/@]+@`),
}

// taskPreview is the beginning of a task with credentials masked.
func taskPreview(task string) string {
	text := validText(cutText(task, previewScanMax))
	for _, re := range masked {
		text = re.ReplaceAllString(text, "$1 [masked]")
	}
	return cutText(text, PreviewBytesMax)
}
