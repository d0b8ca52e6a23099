# frozen_string_literal: true

# gem_server.rb PORT_FILE FOLDER: a source of gems on this machine, for a place without a network.
#
# It offers the gems in the folder by the compact index, as rubygems.org does, so `gem install`
# chooses version and platform as it does there.

require "digest"
require "rubygems/package"
require "socket"
require "zlib"

port_file, folder = ARGV
gems = Dir.glob(File.join(folder, "oneflush-*.gem")).to_h do |path|
  [Gem::Package.new(path).spec, path]
end

# RubyGems asks for one of the two, to see that there is a compact index.
files = { "/" => "", "/versions" => "" }
# What older ones read besides, to see if a dependency is there.
files["/specs.4.8.gz"] = Zlib.gzip(Marshal.dump([]))
info = gems.map do |spec, path|
  # Older RubyGems lose the end of "x86_64-linux-gnu" but in the file's name.
  full_name = File.basename(path, ".gem")
  files["/gems/#{full_name}.gem"] = File.binread(path)
  files["/quick/Marshal.4.8/#{full_name}.gemspec.rz"] = Zlib.deflate(Marshal.dump(spec))
  needs = spec.dependencies.map { |other| "#{other.name}:#{other.requirement}" }.join(",")
  sum = Digest::SHA256.file(path).hexdigest
  "#{full_name.delete_prefix("oneflush-")} #{needs}|checksum:#{sum}," \
    "ruby:#{spec.required_ruby_version},rubygems:#{spec.required_rubygems_version}\n"
end
files["/info/oneflush"] = "---\n#{info.join}"

server = TCPServer.new("127.0.0.1", 0)
File.write("#{port_file}.new", server.addr[1].to_s)
File.rename("#{port_file}.new", port_file)
loop do
  client = server.accept
  method, path = client.gets.to_s.split
  nil until client.gets.to_s.chomp.empty?
  body = files[path]
  client.print("HTTP/1.1 #{body ? "200 OK" : "404 Not Found"}\r\n" \
               "Content-Length: #{body.to_s.bytesize}\r\nConnection: close\r\n\r\n")
  client.print(body) if body && method == "GET"
  client.close
rescue Errno::EPIPE, Errno::ECONNRESET
  nil
end
