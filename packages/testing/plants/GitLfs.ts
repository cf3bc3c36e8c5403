import { type Plants, plantsIn } from "./Plant.ts"

const GIT = "packages/adapters/git"

/** Rules of Git LFS (docs/decisions/20), which are of git alone. */
export const plants: Plants = {
  port: "GitLfs",
  subject: [`${GIT}/test/Lfs.test.ts`, `${GIT}/test/HostileLfs.test.ts`],
  plants: [
    ...plantsIn(`${GIT}/src/lfs/LfsHttp.ts`, [
      ["connects to private addresses", "if (!isListed && !addresses.every(mayConnect))", "if (false)"],
      ["speaks http to any host", "if (url.protocol !== \"https:\" && !isListed)", "if (false)"],
      ["waits for a silent server", "outgoing.setTimeout(idleMillis, () => end(\"A server stopped answering.\"))", ""]
    ]),
    ...plantsIn(`${GIT}/src/lfs/LfsApi.ts`, [
      ["sends the credential to other hosts", "const isOurs = URL.canParse(href) && new URL(href).origin === server.source.origin",
        "const isOurs = URL.canParse(href)"],
      ["takes any header", "if (!isValid) throw", "if (false) throw"]
    ]),
    ...plantsIn(`${GIT}/src/lfs/LfsStore.ts`, [
      ["takes another content", "if (hash.digest(\"hex\") !== object.oid)", "if (false)"],
      ["takes more bytes than the pointer says", "if (left < 0) throw", "if (false) throw"],
      ["takes fewer bytes than the pointer says", "if (left > 0) throw", "if (false) throw"]
    ]),
    ...plantsIn(`${GIT}/src/lfs/FillPointers.ts`, [
      ["fetches contents of any size", "else if (file.size > left)", "else if (false)"],
      ["fills any number of files", "else if (count === MOST)", "else if (false)"],
      ["loses the mode of a file", "await chmod(draft, mode & 0o777)", "await chmod(draft, 0o644)"],
      ["takes contents for changes", "yield* enter(gitDir, onSite.tree, files)", ""],
      ["leaves the agent's git without a filter", "if (server !== undefined) yield* setFilter", "if (false) yield* setFilter"],
      ["keeps the stats of pointers in the agent's index", "if (staged.length > 0) yield*", "if (false) yield*"]
    ]),
    ...plantsIn(`${GIT}/src/lfs/UploadContents.ts`, [
      ["pushes a pointer whose content is refused", "return object === undefined || refused.has(object.oid)",
        "return object === undefined"],
      ["takes an outage for a refusal", ": failure.retryable\n", ": false\n"],
      ["keeps commits whose contents are nowhere", "keepsCommits: refused.size === 0 && left.length === 0", "keepsCommits: true"],
      ["forgets contents of earlier commits", "for (const content of yield* keptContents(repository, unread, maximumBytes))",
        "for (const content of yield* keptContents(repository, [], maximumBytes))"]
    ])
  ]
}
