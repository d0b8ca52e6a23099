//go:build !(linux && (amd64 || arm64))

package oneflush

import "embed"

var embedded embed.FS

const embeddedFolder = "embedded/none"
