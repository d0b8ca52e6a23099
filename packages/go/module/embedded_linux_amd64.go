package oneflush

import "embed"

//go:embed embedded/amd64
var embedded embed.FS

const embeddedFolder = "embedded/amd64"
