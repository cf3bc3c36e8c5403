/** Where a box has things, whatever makes it. */

/** The working trees. */
export const WORKSPACE = "/workspace"
/** Temporary files that outlive a process. `/tmp` is memory, and each process has its own. */
export const SCRATCH = "/scratch"
/** The only way out of a box, where it has one. */
export const EGRESS_SOCKET = "/run/slipway/egress.sock"

/** Files of `/etc` that a box has of its own: programs die without a name and a home for their user. */
export const etcFiles = (
  user: { readonly uid: number; readonly gid: number; readonly home: string }
): Readonly<Record<string, string>> => ({
  passwd: `root:x:0:0::/nonexistent:/usr/sbin/nologin\nagent:x:${user.uid}:${user.gid}::${user.home}:/bin/sh\n`,
  group: `root:x:0:\nagent:x:${user.gid}:\n`,
  hosts: "127.0.0.1 localhost\n::1 localhost\n"
})
