# Runs a file of SQLite's suite where the WAL has another name: suite/run starts it before the file with `eager` and `waldio`.
# The first argument has the names: what stands behind the database's name on the disk, and behind that of the log, if there is one.
#
# SQLite calls its WAL `DB-wal` and gives that name to the VFS. With `eager` it is on the disk as `DB-oneflush-wal`, and what is durable
# of it as `DB-oneflush`. With `waldio` it is on the disk as `DB-waldio`, which is the log too. Tests look at the WAL with Tcl's own
# commands: they ask for its size, read its header, change its permissions, copy it beside a copy of the database, delete it. Here these
# commands get the names on the disk, and who copies or deletes the WAL copies or deletes the log with it. What goes through SQLite
# (the VFS that simulates crashes, the one that reports calls) keeps SQLite's name, and a WAL that is there by SQLite's name is left to
# the test. No test is changed or left out.

# No global variables: SQLite's tests have their own.
namespace eval wal_name { lassign [lindex $::argv 0] ending log_ending }

proc wal_name {path} {
  if {![string match *-wal $path] || [string match *$::wal_name::ending $path] || [wal_name_file exists $path]} { return $path }
  return [string replace $path end-3 end $::wal_name::ending]
}

# The log that belongs to a WAL on the disk; empty if this is none, or if the WAL is the log.
proc wal_name_log {path} {
  if {$::wal_name::log_ending eq "" || ![string match *$::wal_name::ending $path]} { return "" }
  return [string range $path 0 end-[string length $::wal_name::ending]]$::wal_name::log_ending
}

rename file wal_name_file
proc file {command args} {
  # These only work with names.
  if {$command in {dirname extension join nativename normalize pathtype rootname split tail}} {
    return [uplevel 1 [list wal_name_file $command {*}$args]]
  }
  set names [list]
  foreach word $args { lappend names [wal_name $word] }
  if {$command eq "delete"} {
    foreach name $names { lappend names {*}[wal_name_log $name] }
  }
  if {$command eq "copy"} {
    lassign [lmap name [lrange $names end-1 end] { wal_name_log $name }] from to
    if {$from ne "" && $to ne "" && [wal_name_file exists $from]} { wal_name_file copy -force $from $to }
  }
  return [uplevel 1 [list wal_name_file $command {*}$names]]
}

foreach command {open hexio_read hexio_write} {
  rename $command wal_name_$command
  proc $command {path args} "uplevel 1 \[list wal_name_$command \[wal_name \$path\] {*}\$args\]"
}

# As testfixture begins without this.
set argv0 [lindex $argv 1]
set argv [lrange $argv 2 end]
unset command
source $argv0
