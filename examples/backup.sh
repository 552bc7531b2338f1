#!/bin/sh
# A nightly backup, on whichever machine gets the lock:  backup.sh FROM TO
# FENCING_DATABASE or FENCING_REDIS names the lock service.
set -eu
from=$1 to=$2

status=0
FROM=$from TO=$to fencing run --resource backup --wait 0s --ttl 5m --at-least 5m -- sh -euc '
    # The token is in the name, so that two backups never write one file.
    tar -cf "$TO/.backup-$FENCING_TOKEN" -C "$FROM" .
    mv "$TO/.backup-$FENCING_TOKEN" "$TO/backup-$FENCING_TOKEN.tar"
    echo "backup-$FENCING_TOKEN.tar"
' || status=$?

case $status in
    75) echo "another machine makes the backup" ;;
    76) echo "the lease was lost, the backup was stopped" >&2; exit 1 ;;
    *) exit "$status" ;;
esac
