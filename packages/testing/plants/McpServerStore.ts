import { type Plants, plantsIn } from "./Plant.ts"

export const plants: Plants = {
  port: "McpServerStore",
  subject: "packages/testing/test/mcp/McpServerStore.suites.ts",
  plants: [
    ...plantsIn("packages/domain/memory/mcp/McpServerStoreMemory.ts", [
      ["tells spellings of a repository apart", "(repo === null || sameRepo(server.record.repo, repo))",
        "(repo === null || server.record.repo === repo)"],
      ["takes servers for a revoked grant", "&& revokedAt === null", ""],
      ["has no most servers of a repository", "ofRepo.length >= MAX_MCP_SERVERS ||", ""],
      ["refuses a change at the limit", "(yield* kept(grantId, null)).filter((server) => server !== before)", "yield* kept(grantId, null)"],
      ["shares the servers of all grants", "server.grantId === grantId && (repo === null", "(repo === null"],
      ["lists in the order of setting", "\n      .toSorted((a, b) => orderOf(a.record) < orderOf(b.record) ? -1 : 1)", ""],
      ["forgets a credential with each change", "change === \"none\" ? null :", "change === \"none\" || change === \"keep\" ? null :"],
      ["keeps the credential of a server that needs none", "change === \"none\" ? null :",
        "change === \"none\" ? before?.credential ?? null :"],
      ["accepts a server without its credential", "if (change === \"missing\")", "if (false)"],
      ["removes every server of a name", "all = all.filter((server) => server !== found)",
        "all = all.filter((server) => server.record.repo !== found.record.repo)"],
      ["reveals servers of other repositories", "repos.some((repo) => sameRepo(repo, record.repo)) ?", "repos.length > 0 ?"],
      ["does not log changes", "yield* audit.append([told(\"mcp_server.set\", key, at)])", ""],
      ["does not log removals", "yield* audit.append([told(\"mcp_server.removed\", key, at)])", ""],
      ["ends no connection with new settings", "keepsConnection(before.record.settings, settings, change) ? before.connection : null",
        "true ? before.connection : null"],
      ["ends each connection with new settings", "keepsConnection(before.record.settings, settings, change) ? before.connection : null",
        "false ? before.connection : null"],
      ["gives what was begun twice", "replace(found, { begun: null })", ""],
      ["gives what was begun long ago", "DateTime.isGreaterThan(until, at) ? {", "true ? {"],
      ["connects a server of other settings", "found === undefined || !keepsConnection(found.record.settings, settings, \"none\")",
        "found === undefined"],
      ["uses versions again", "Math.max((found.connection?.version ?? 0) + 1, DateTime.toEpochMillis(connectedAt))",
        "(found.connection?.version ?? 0) + 1"],
      ["lets everyone renew", "(claimed !== null && DateTime.isGreaterThan(claimed, at))", "false"],
      ["lets no process renew after a process that died", "(claimed !== null && DateTime.isGreaterThan(claimed, at))", "claimed !== null"],
      ["takes late renewals", "found?.connection?.version === version ?", "found?.connection != null ?"],
      ["keeps a renewal claimed after its end", "...next, renewingUntil: null }", "...next }"],
      ["does not log connections", "yield* audit.append([told(\"mcp_server.connected\", key, connectedAt)])", ""],
      ["keeps the time of the last setting", "const createdAt = before?.record.createdAt ?? at", "const createdAt = at"]
    ]),
    ...plantsIn("packages/domain/src/mcp/rules/McpServers.ts", [
      ["gives a credential to another address", " && before.settings.url === url\n", "\n"],
      ["keeps values for variables of other names", "variables.every((name) => had.has(name)) ?", "variables.length > 0 ?"],
      ["keeps values for fewer variables", "had.size === variables.length && ", ""],
      ["accepts a command without its values", "!before.hasCredential || !runsCommand(before.settings)) return \"missing\"",
        "!before.hasCredential || !runsCommand(before.settings)) return \"none\""],
      ["keeps values of a command without variables", "if (variables.length === 0) return \"none\"", ""],
      ["connects a command", "if (runsCommand(before) || runsCommand(after)) return false",
        "if (runsCommand(before) || runsCommand(after)) return true"],
      ["gives a credential in another header", "was?.type === \"header\" && was.name.toLowerCase() === authentication.name.toLowerCase()",
        "was?.type === \"header\""],
      ["gives the secret of a client to another", "was?.type === \"oauth\" && was.clientId === authentication.clientId ? \"keep\"",
        "was?.type === \"oauth\" ? \"keep\""],
      ["keeps a connection with another secret", "change !== \"replace\" && ", ""],
      ["keeps a connection with another address", "before.url === after.url && ", ""],
      ["keeps a connection with other scopes", " &&\n    was.scope === is.scope", ""]
    ])
  ]
}
