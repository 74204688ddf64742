-- What was reported about the health of an endpoint?
-- Index: the primary keys. Lock: none.
SELECT health_history FROM endpoint_activity WHERE lane = (SELECT lane FROM lanes WHERE id = ?1);
