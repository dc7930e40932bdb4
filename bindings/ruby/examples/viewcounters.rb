# frozen_string_literal: true

require "localmemcache"
require "tmpdir"

# As Localmemcache's users wrote it.
Dir.mktmpdir do |folder|
  counters = LocalMemCache.new(filename: "#{folder}/viewcounters.lmc", size_mb: 16)
  counters[:home] = counters[:home].to_i + 1
  puts "home: #{counters[:home]}, #{counters.shm_status[:used_bytes]} bytes used"
  objects = LocalMemCache::SharedObjectStorage.new(filename: "#{folder}/objects.lmc", size_mb: 16)
  objects[:last] = { page: "home", at: Time.now }
  puts objects[:last][:page]
end
