-- Had a delivery that died been made because its dead letter came back by itself?
-- Index: the unique key (event_id, endpoint_id). Lock: the row, held by the caller who buried it.
SELECT EXISTS (SELECT 1 FROM dead_letters WHERE event_id = $2 AND endpoint_id = $3 AND automatic_delivery_id = $1) AS died;
