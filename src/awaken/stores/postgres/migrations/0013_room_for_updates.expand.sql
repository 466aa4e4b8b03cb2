-- Room in each page, so that a new version of a row stays on its page and no index is written.
ALTER TABLE threads SET (fillfactor = 70);
ALTER TABLE runs SET (fillfactor = 70);
