# frozen_string_literal: true

require_relative "helper"

# ActiveRecord and Sequel, in a process for each way.
class Mappers < Case
  RECORD = <<~RUBY
    require "active_record"
    require "oneflush"
    class Item < ActiveRecord::Base; end
    def check
      connection = ActiveRecord::Base.connection
      connection.execute("PRAGMA journal_mode = WAL")
      connection.create_table(:items) { |table| table.integer :n }
      Item.transaction { Item.create!(n: 1) }
      puts connection.select_value("PRAGMA oneflush_strategy"), Item.count
    end
  RUBY

  def active_record(source, env: {})
    file = self.file
    said = ruby("#{RECORD} file = ARGV[0]; #{source}; check", file, env: env)
    assert_equal "1", alone(file, "SELECT count(*) FROM items") if File.exist?(file)
    said.lines.last(2).join.chomp
  end

  def test_ActiveRecord_with_enable_before_the_first_connection
    assert_equal "plain\n1", active_record("Oneflush.enable(default: true)
      ActiveRecord::Base.establish_connection(adapter: 'sqlite3', database: file)")
    assert_equal "eager\n1", active_record("Oneflush.enable(default: true, strategy: :eager)
      ActiveRecord::Base.establish_connection(adapter: 'sqlite3', database: file)")
  end

  def test_ActiveRecord_with_a_URI_for_the_database
    assert_equal "eager\n1", active_record("Oneflush.enable
      ActiveRecord::Base.establish_connection(adapter: 'sqlite3',
        database: Oneflush.uri(file, strategy: :eager))")
  end

  def test_ActiveRecord_enabled_after_the_first_connection_comes_too_late
    assert_equal "\n1", active_record("
      ActiveRecord::Base.establish_connection(adapter: 'sqlite3', database: file)
      ActiveRecord::Base.connection.execute('SELECT 1')
      Oneflush.enable(default: true)")
  end

  def test_Sequel
    file = self.file
    said = ruby("require 'sequel'; require 'oneflush'
      Oneflush.enable(default: true, strategy: :eager)
      db = Sequel.sqlite(ARGV[0])
      db.run('PRAGMA journal_mode = WAL')
      db.create_table(:items) { Integer :n }
      db[:items].insert(n: 1)
      print db.get(Sequel.lit('1')), db.fetch('PRAGMA oneflush_strategy').single_value
      db.disconnect", file)
    assert_equal "1eager", said
    assert_equal "1", alone(file, "SELECT n FROM items")
  end
end
