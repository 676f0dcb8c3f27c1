"""An executor, a meter, a cache and a sink of a third party, written against burnish's public names only."""
