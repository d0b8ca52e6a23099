package oneflush

import "embed"

//go:embed embedded/arm64
var embedded embed.FS

const embeddedFolder = "embedded/arm64"
