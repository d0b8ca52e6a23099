# frozen_string_literal: true

# writer.rb STRATEGY FILE COUNT: commits numbers from where the table ends, and says each when the
# commit is acknowledged. At the end it says what the database tells of itself.

require "oneflush"

$stdout.sync = true
strategy, file, count = ARGV
db = Oneflush.open(file, strategy: strategy)
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA synchronous = FULL")
db.execute("CREATE TABLE IF NOT EXISTS item(n INTEGER PRIMARY KEY)")
last = db.get_first_value("SELECT coalesce(max(n), 0) FROM item")
before = Oneflush.stats(db).dig("commits", "count")
(last + 1..last + Integer(count)).each do |n|
  db.execute("INSERT INTO item VALUES (?)", [n])
  puts n
end
commits = Oneflush.stats(db).dig("commits", "count") - before
puts [last, commits, Oneflush.strategy(db)].join(" ")
db.close
