-- The life of the server that the session talks to, and the session's fleet.
local run_id, my_fleet = life_of(MARKER), fleet_of(MARKER)
