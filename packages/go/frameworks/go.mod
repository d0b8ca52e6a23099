// Tests of the module under GORM, sqlx and ent. They are a module of their own, so that a program
// that takes Oneflush does not take these.
module frameworks

go 1.24.0

replace github.com/oneflush/oneflush-go => ../module

require (
	entgo.io/ent v0.14.5
	github.com/jmoiron/sqlx v1.4.0
	github.com/oneflush/oneflush-go v0.0.0-00010101000000-000000000000
	gorm.io/driver/sqlite v1.6.0
	gorm.io/gorm v1.31.2
)

require (
	github.com/google/uuid v1.3.0 // indirect
	github.com/jinzhu/inflection v1.0.0 // indirect
	github.com/jinzhu/now v1.1.5 // indirect
	github.com/mattn/go-sqlite3 v1.14.52 // indirect
	golang.org/x/text v0.21.0 // indirect
)
