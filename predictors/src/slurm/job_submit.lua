
-- What follows does not change with the configuration above.
--
-- Slurm calls slurm_job_submit for each job, one at a time, while slurmctld holds its locks. Hence:
--   * whatever goes wrong here, the job is accepted as it came (every step is under pcall), and slurmctld's log says why, once;
--   * a job costs at most five look-ups in a hash table, and at most SLICE bytes of reading while a new table is taken in;
--   * the table is text that is parsed, never code that is run.
-- A table that is missing turns predictions off; one that is damaged, cut short or too large is refused, and the last good one stays.
--
-- Runs under Lua 5.1 to 5.4 and LuaJIT. Of a site that has its own job_submit.lua: load this file with dofile at its top, and call
-- tracecast.submit(job_desc, part_list) from its own slurm_job_submit.

-- Most bytes read for one job: some 20 ms. A first table, when slurmctld starts or takes in this script, is read whole: some 0.1 s a MiB.
local SLICE = 262144
local CHUNK = 65536
-- No line of a table is as long as this.
local LONGEST_LINE = 4096
local LONGEST_STEM = 64
-- slurmctld rejects a job with a comment of more than 1024 bytes.
local LONGEST_COMMENT = 1000
-- What says that nothing was asked for, in fields of 32 and of 16 bits.
local NONE = 4294967294
local NONE_16 = 65534
-- The bounds of a site factor.
local SITE_FACTOR_BOUND = 2147483645

local byte, find, format, gsub, match, sub = string.byte, string.find, string.format, string.gsub, string.match, string.sub

-- The digest of a table's lines: a polynomial modulo a prime, of numbers that doubles hold.
local PRIME, BASE = 4294967291, 1048583
local function digest(sum, line)
  for at = 1, #line, 6 do
    local a, b, c, d, e, f = byte(line, at, at + 5)
    sum = (sum * BASE + a * 65536 + (b or 0) * 256 + (c or 0)) % PRIME
    if d then
      sum = (sum * BASE + d * 65536 + (e or 0) * 256 + (f or 0)) % PRIME
    end
  end
  return (sum * BASE + 16777216 + #line) % PRIME
end

-- entries: key to "expected ms, p95 ms, jobs", or nil; header: first line of the table they are from; loading: a new table in
-- the making; checked: when the file was last looked at, seconds; said: what was logged since a table was last taken in.
local state = { said = {} }

local function say(what)
  if not state.said[what] then
    state.said[what] = true
    pcall(slurm.log_info, "%s", "tracecast: " .. what)
  end
end

-- Letters by byte ranges: what string.lower and %d take for letters and digits depends on the locale of slurmctld.
local LOWER = {}
for code = 65, 90 do
  LOWER[string.char(code)] = string.char(code + 32)
end
local ESCAPED = {}
for code = 0, 255 do
  ESCAPED[string.char(code)] = format("%%%02X", code)
end

-- The name in lower case with each run of digits as one #, cut at 64 bytes, but not within a letter of UTF-8.
local function name_stem(name)
  local stem = gsub(gsub(name, "[0-9]+", "#"), "[A-Z]", LOWER)
  if #stem <= LONGEST_STEM then
    return stem
  end
  local last = LONGEST_STEM
  while last > LONGEST_STEM - 3 do
    local code = string.byte(stem, last + 1)
    if code < 128 or code > 191 then
      break
    end
    last = last - 1
  end
  return sub(stem, 1, last)
end

-- A text as it stands in a key.
local function escaped(text)
  return (gsub(text, "[^A-Za-z0-9_.#/-]", ESCAPED))
end

-- Reads a table from `file`; run as a coroutine that yields after each slice. Errors say what is wrong with it.
local function parse(file)
  local entries, rows, expected_rows, ended = {}, 0, nil, false
  local sum, expected_sum = 0, nil
  local rest, bytes, slice, line_number = "", 0, 0, 0
  while true do
    local chunk = file:read(CHUNK)
    if not chunk then
      break
    end
    bytes, slice = bytes + #chunk, slice + #chunk
    if bytes > config.max_bytes then
      error("it has more than " .. format("%.0f", config.max_bytes) .. " bytes", 0)
    end
    local text, from = rest .. chunk, 1
    while true do
      local at = find(text, "\n", from, true)
      if not at then
        break
      end
      local line = sub(text, from, at - 1)
      from, line_number = at + 1, line_number + 1
      if #line > LONGEST_LINE or ended then
        error("line " .. line_number .. " should not be there", 0)
      elseif not expected_rows then
        local count, told = match(line, "^tracecast%-durations 2 ([0-9]+) ([0-9a-f]+)$")
        if not count then
          error(match(line, "^tracecast%-durations ") and "it is of another version" or "it is no table", 0)
        end
        expected_rows, expected_sum = tonumber(count), tonumber(told, 16)
      else
        sum = digest(sum, line)
        local key, value = match(line, "^([^\t]+)\t([0-9]+\t[0-9]+\t[0-9]+)$")
        if key then
          entries[key] = value
          rows = rows + 1
        elseif line == "end" then
          ended = true
        else
          error("line " .. line_number .. " is no entry", 0)
        end
      end
    end
    rest = sub(text, from)
    if #rest > LONGEST_LINE then
      error("line " .. (line_number + 1) .. " does not end", 0)
    end
    if slice >= SLICE then
      slice = 0
      coroutine.yield()
    end
  end
  if not ended or rest ~= "" or rows ~= expected_rows then
    error("it is not complete", 0)
  end
  if sum ~= expected_sum then
    error("it is damaged: its digest is another", 0)
  end
  return entries, rows
end

local function refused(why)
  say("table " .. config.table_path .. " refused: " .. tostring(why))
end

-- Takes in the next slice of the table in the making.
local function load_slice()
  local loading = state.loading
  local fine, entries, rows = coroutine.resume(loading.parse, loading.file)
  if fine and coroutine.status(loading.parse) ~= "dead" then
    return
  end
  state.loading = nil
  loading.file:close()
  if fine then
    state.entries, state.header, state.said = entries, loading.header, {}
    say("table " .. config.table_path .. " read: " .. format("%.0f", rows) .. " entries")
  else
    refused(entries)
  end
end

-- Looks, every config.refresh_s seconds, whether the file has another header than the table in use, and if so starts to read it.
local function look_for_table()
  local now = os.time()
  if state.loading then
    return load_slice()
  end
  if state.checked and now >= state.checked and now - state.checked < config.refresh_s then
    return
  end
  state.checked = now
  local file, why = io.open(config.table_path, "rb")
  if not file then
    state.entries, state.header = nil, nil
    say("no predictions: " .. tostring(why))
    return
  end
  local head = file:read(LONGEST_LINE)
  local header = head and match(head, "^[^\n]*")
  if header and header == state.header then
    file:close()
    return
  end
  local size = file:seek("end")
  if not head or not size or size > config.max_bytes or not file:seek("set", 0) then
    file:close()
    refused(head and "it has more than " .. format("%.0f", config.max_bytes) .. " bytes" or "it is empty or cannot be read")
    return
  end
  state.loading = { file = file, header = header, parse = coroutine.create(parse) }
  return load_slice()
end

-- A count that was asked for, or nil.
local function asked(value, none)
  if type(value) == "number" and value >= 1 and value < none then
    return value
  end
end

local SCALE = { [""] = 1, k = 1024, K = 1024, m = 1048576, M = 1048576 }

-- GPUs in a list such as gres:gpu:a100:4,gres:nic:1 or gres/gpu=2 or gpu; nil if it has none.
local function gpus_in(list)
  local total
  if type(list) ~= "string" then
    return nil
  end
  for item in string.gmatch(list, "[^,]+") do
    item = gsub(gsub(item, "%(.*$", ""), "^%s*gres[:/]", "")
    local rest = item == "gpu" and "" or match(item, "^gpu[:=](.*)$")
    if rest then
      -- Without a count it is one; what stands before the count is the type.
      local count, scale = match(rest, "^([0-9]+)([kKmM]?)$")
      if not count then
        count, scale = match(rest, "[:=]([0-9]+)([kKmM]?)$")
      end
      total = (total or 0) + (count and tonumber(count) * SCALE[scale] or 1)
    end
  end
  return total
end

-- GPUs of a job over all its nodes. What is asked for a node, a socket or a task is times as many as are asked for at least.
local function gpus(job)
  local total = gpus_in(job.tres_per_job)
  if total then
    return total
  end
  local tasks, tasks_a_node = asked(job.num_tasks, NONE), asked(job.ntasks_per_node, NONE_16)
  local nodes = asked(job.min_nodes, NONE)
  if not nodes then
    nodes = tasks and tasks_a_node and math.ceil(tasks / tasks_a_node) or 1
  end
  local a_node = gpus_in(job.tres_per_node) or gpus_in(job.gres)
  if a_node then
    return a_node * nodes
  end
  local a_socket = gpus_in(job.tres_per_socket)
  if a_socket then
    return a_socket * (asked(job.sockets_per_node, NONE_16) or 1) * nodes
  end
  local a_task = gpus_in(job.tres_per_task)
  if a_task then
    return a_task * (tasks or nodes * (tasks_a_node or 1))
  end
  return 0
end

-- The partition of a job: the first it names, else the default.
local function partition(job, part_list)
  if type(job.partition) == "string" and job.partition ~= "" then
    return match(job.partition, "^[^,]+")
  end
  for name, part in pairs(part_list or {}) do
    if part.flag_default == 1 then
      return name
    end
  end
end

-- What is expected of a job: seconds, seconds that 95 % stay under, and of how many jobs that is known; nil if of none.
local function expected(job, part_list)
  local entries = state.entries
  if not entries then
    return nil
  end
  local count = format("%.0f", gpus(job))
  local user = type(job.user_name) == "string" and escaped(job.user_name)
  local value
  if user then
    value = type(job.name) == "string" and entries["s " .. user .. " " .. escaped(name_stem(job.name)) .. " " .. count]
    value = value or entries["u " .. user .. " " .. count]
  end
  if not value then
    local vc = partition(job, part_list)
    value = vc and entries["v " .. escaped(vc) .. " " .. count]
  end
  value = value or entries["g " .. count] or entries["a"]
  if not value then
    return nil
  end
  local mean_ms, p95_ms, jobs = match(value, "^([0-9]+)\t([0-9]+)\t([0-9]+)$")
  return tonumber(mean_ms) / 1000, tonumber(p95_ms) / 1000, tonumber(jobs)
end

-- The shorter and smaller a job, the sooner: from config.site_factor_most at nothing down to 0 at config.ceiling_gpu_s, by the logarithm. A job
-- without GPUs counts as one with one. Never below 0, as Slurm takes any priority below 1 for 1.
local function site_factor(gpu_s)
  local share = 1 - math.log(1 + gpu_s) / math.log(1 + config.ceiling_gpu_s)
  local most = math.min(config.site_factor_most, SITE_FACTOR_BOUND)
  return math.max(0, math.min(most, math.floor(most * share + 0.5)))
end

local function set_comment(job, mean_s, p95_s)
  if config.comment ~= "admin_comment" and config.comment ~= "comment" then
    return
  end
  local text = format("tracecast: expected %.0f s, 95%% under %.0f s", mean_s, p95_s)
  local before = job[config.comment]
  if type(before) == "string" and before ~= "" then
    text = before .. "; " .. text
  end
  if #text <= LONGEST_COMMENT then
    job[config.comment] = text
  end
end

local function set_site_factor(job, mean_s)
  local before = job.site_factor
  if config.site_factor_most > 0 and (before == nil or before == 0 or before == slurm.NO_VAL) then
    job.site_factor = site_factor(mean_s * math.max(1, gpus(job)))
  end
end

-- Minutes, of a job that asks for no limit; never more than each of its partitions allows.
local function set_time_limit(job, part_list, p95_s, jobs)
  if not config.set_time_limit or jobs < config.limit_least_jobs then
    return
  end
  if job.time_limit ~= nil and job.time_limit ~= slurm.NO_VAL then
    return
  end
  local minutes = math.max(config.limit_least_min, math.ceil(p95_s * config.limit_margin / 60), 1)
  minutes = math.min(minutes, config.limit_most_min)
  local names = type(job.partition) == "string" and job.partition ~= "" and job.partition or partition(job, part_list) or ""
  for name in string.gmatch(names, "[^,]+") do
    local part = part_list and part_list[name]
    local most = part and asked(part.max_time, NONE)
    minutes = most and math.min(minutes, most) or minutes
  end
  job.time_limit = minutes
end

local function attempt(step, ...)
  local fine, why = pcall(step, ...)
  if not fine then
    say("a job was left as it came: " .. tostring(why))
  end
end

local function submit(job, part_list)
  local mean_s, p95_s, jobs = expected(job, part_list)
  if mean_s then
    attempt(set_comment, job, mean_s, p95_s)
    attempt(set_site_factor, job, mean_s)
    attempt(set_time_limit, job, part_list, p95_s, jobs)
  end
end

tracecast = { name_stem = name_stem, escaped = escaped, gpus = gpus, site_factor = site_factor }

function tracecast.submit(job_desc, part_list)
  attempt(look_for_table)
  attempt(submit, job_desc, part_list)
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  pcall(tracecast.submit, job_desc, part_list)
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end

attempt(function()
  look_for_table()
  while state.loading do
    load_slice()
  end
end)

return slurm.SUCCESS
