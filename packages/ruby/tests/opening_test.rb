# frozen_string_literal: true

require_relative "helper"

class Opening < Case
  def test_each_database_has_the_strategy_of_its_open
    first, second = %i[eager plain].map { |strategy| Oneflush.open(file, strategy: strategy) }
    [first, second].each { |db| db.execute("PRAGMA journal_mode = WAL") }
    assert_equal %w[eager plain], [first, second].map { |db| Oneflush.strategy(db) }
  ensure
    [first, second].each { |db| db&.close }
  end

  def test_a_block_gets_the_database_and_closes_it
    inside = nil
    answer = Oneflush.open(file) { |db| inside = db; 42 }
    assert_equal 42, answer
    assert inside.closed?
  end

  def test_options_of_the_driver_pass
    file = self.file
    Oneflush.open(file) { |db| db.execute("CREATE TABLE item(n)") }
    Oneflush.open(file, sqlite3: { readonly: true, results_as_hash: true }) do |db|
      assert_equal [{ "n" => 1 }], db.execute("SELECT 1 AS n").map { |row| row.slice("n") }
      assert_equal "plain (inactive: journal_mode=delete)", Oneflush.strategy(db)
      assert_raises(SQLite3::ReadOnlyException) { db.execute("INSERT INTO item VALUES (1)") }
    end
    refute File.exist?(missing = self.file)
    refused("ONEFLUSH_LOG=stderr") { Oneflush.open(missing, sqlite3: { readwrite: true }) }
  end

  def test_stats_and_checkpoint_are_hashes_and_nil_without_Oneflush
    Oneflush.open(file, strategy: :plain) do |db|
      db.execute("PRAGMA journal_mode = WAL")
      db.execute("CREATE TABLE item(n)")
      assert_equal Oneflush::VERSION, Oneflush.stats(db)["version"]
      assert_equal false, Oneflush.checkpoint(db)["held_up"]
    end
    db = SQLite3::Database.new(file)
    assert_nil Oneflush.strategy(db)
    assert_nil Oneflush.stats(db)
    assert_nil Oneflush.checkpoint(db)
    db.close
  end

  def test_uri_quotes_what_a_path_may_have
    assert_equal "file:app.db?vfs=oneflush", Oneflush.uri("app.db")
    assert_equal "file:/srv/a%20b%3F%23%25.db?vfs=oneflush&group_commit=off&log_size=1048576",
                 Oneflush.uri("/srv/a b?#%.db", group_commit: false, log_size: 1 << 20)
    assert_equal "file:/srv/app.db?vfs=oneflush", Oneflush.uri("//srv/app.db", strategy: nil)
    assert_equal "file:app.db?vfs=oneflush&interval=2ms", Oneflush.uri("app.db", interval: "2ms")
    data = folder
    Oneflush.open(File.join(data, "a b?#%&=é.db")) { |db| db.execute("CREATE TABLE item(n)") }
    assert_equal ["a b?#%&=é.db"], Dir.children(data)
  end

  # As a program, with a strategy that is no default.
  def test_the_lines_of_oneflush_try_switch_it_on
    said, refused, status = Open3.capture3("oneflush", "try", "--language", "ruby")
    assert status.success?, refused
    install, *lines = said.lines
    assert_equal "gem install oneflush\n", install
    code = lines.join.gsub(":plain", ":eager") + <<~RUBY
      db.execute("PRAGMA journal_mode = WAL")
      puts Oneflush.strategy(db), Oneflush.strategy(SQLite3::Database.new("app.db"))
    RUBY
    assert_equal "eager\neager", Dir.chdir(folder) { ruby(code) }
  end

  def test_a_path_may_be_a_Pathname
    require "pathname"
    path = Pathname(file)
    Oneflush.open(path, strategy: :eager) { |db| db.execute("CREATE TABLE item(n)") }
    assert_equal false, Oneflush.recover(path)["recovered"]
  end
end

class Loading < Case
  HEAD = 'require "oneflush"; require "sqlite3"; file = ARGV[0]; '

  def strategy_of(source, env: {})
    ruby("#{HEAD} #{source}; print Oneflush.strategy(SQLite3::Database.new(file)).inspect", file,
         env: env)
  end

  def test_enable_serves_what_is_opened_afterwards
    assert_equal '"plain (inactive: journal_mode=delete)"',
                 strategy_of("Oneflush.enable(default: true)")
    assert_equal "nil", strategy_of("Oneflush.enable")
    assert_equal "nil", strategy_of("Oneflush.enable(strategy: :eager)")
    assert_equal '"eager (inactive: journal_mode=delete)"',
                 strategy_of("Oneflush.enable(default: true, strategy: :eager)")
  end

  def test_a_database_that_was_open_stays_as_it_is
    said = ruby("#{HEAD} db = SQLite3::Database.new(file)
      Oneflush.load(db, default: true)
      print Oneflush.strategy(db).inspect", file)
    assert_equal "nil", said
  end

  def test_a_call_without_options_changes_nothing_and_one_with_options_replaces
    eager = "Oneflush.enable(default: true, strategy: :eager);"
    assert_match(/eager/, strategy_of("#{eager} Oneflush.enable"))
    assert_match(/eager/, strategy_of("#{eager} Oneflush.open(file + '2', strategy: :plain)"))
    assert_match(/plain/, strategy_of("#{eager} Oneflush.enable(strategy: :plain)"))
  end

  def test_options_may_come_from_the_environment
    env = { "ONEFLUSH_DEFAULT" => "1", "ONEFLUSH_STRATEGY" => "eager" }
    assert_match(/eager/, strategy_of("Oneflush.enable", env: env))
    assert_match(/plain/, strategy_of("Oneflush.enable(strategy: :plain)", env: env))
  end

  def test_the_environment_and_the_switch_for_extensions_are_as_they_were
    said = ruby("#{HEAD} before = ENV.to_h
      db = SQLite3::Database.new(':memory:')
      Oneflush.load(db, default: true, strategy: :eager, log_size: 4 << 20)
      print before == ENV.to_h
      begin
        db.execute(%q(SELECT load_extension('x')))
      rescue SQLite3::SQLException => error
        print error.message
      end", file)
    assert_equal "truenot authorized", said
  end

  def test_an_end_with_an_open_database_leaves_a_plain_one
    file = self.file
    ruby("#{HEAD} $db = Oneflush.open(file, strategy: :eager)
      $db.execute('PRAGMA journal_mode = WAL')
      $db.execute('CREATE TABLE item(n)')
      exit", file)
    assert_equal ["app.db"], Dir.children(File.dirname(file))
    assert_equal "ok", alone(file, "PRAGMA integrity_check")
  end
end
