# frozen_string_literal: true

module Oneflush
  # Opens one database with Oneflush, whatever is the default.
  module Opening
    # A database of the gem sqlite3 that uses Oneflush. `plain`, `eager` and `waldio` act in WAL
    # mode: `db.execute("PRAGMA journal_mode = WAL")`.
    #
    # @example
    #   db = Oneflush.open("app.db", strategy: :eager, sqlite3: { results_as_hash: true })
    # @param path [String, #to_path]
    # @param sqlite3 [Hash] options of SQLite3::Database.new
    # @param options [Hash] options of Oneflush
    # @yieldparam db [SQLite3::Database] it is closed after the block
    # @return [SQLite3::Database, Object] what the block returns, where there is one
    # @raise [Error] if an option is not known, or the database cannot be opened
    def open(path, sqlite3: {}, **options)
      name = uri(path, **options)
      enable
      db = database(name, path, sqlite3)
      return db unless block_given?

      begin
        yield db
      ensure
        db.close
      end
    end

    private

    def database(name, path, options)
      SQLite3::Database.new(name, with_uri(options))
    rescue SQLite3::CantOpenException => error
      raise Error, "oneflush: #{path}: #{error.message}. ONEFLUSH_LOG=stderr in the environment " \
                   "shows the reason"
    end

    # The gem takes either words or flags, and a URI needs a flag.
    def with_uri(options)
      flags = SQLite3::Constants::Open
      mode =
        if options[:flags] then options[:flags]
        elsif options[:readonly] then flags::READONLY
        elsif options[:readwrite] then flags::READWRITE
        else flags::READWRITE | flags::CREATE
        end
      rest = options.reject { |option, _| %i[readonly readwrite flags].include?(option) }
      rest.merge(flags: mode | flags::URI)
    end
  end
end
