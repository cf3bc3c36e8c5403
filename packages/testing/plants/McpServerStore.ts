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
      ["refuses a change at the limit", "before === undefined && (ofRepo", "(ofRepo"],
      ["shares the servers of all grants", "server.grantId === grantId && (repo === null", "(repo === null"],
      ["lists in the order of setting", "\n        .toSorted((a, b) => orderOf(a.record) < orderOf(b.record) ? -1 : 1)", ""],
      ["forgets a credential with each change", "change === \"none\" ? null :", "change === \"none\" || change === \"keep\" ? null :"],
      ["keeps the credential of a server that needs none", "change === \"none\" ? null :",
        "change === \"none\" ? before?.credential ?? null :"],
      ["accepts a server without its credential", "if (change === \"missing\")", "if (false)"],
      ["removes every server of a name", "all = all.filter((server) => server !== found)",
        "all = all.filter((server) => server.record.repo !== found.record.repo)"],
      ["reveals servers of other repositories", "repos.some((repo) => sameRepo(repo, record.repo)) ?", "repos.length > 0 ?"],
      ["does not log changes", "yield* audit.append([told(\"mcp_server.set\", key, at)])", ""],
      ["does not log removals", "yield* audit.append([told(\"mcp_server.removed\", key, at)])", ""],
      ["keeps the time of the last setting", "const createdAt = before?.record.createdAt ?? at", "const createdAt = at"]
    ]),
    ...plantsIn("packages/domain/src/mcp/rules/McpServers.ts", [
      ["gives a credential to another address", "before.settings.url === url && ", ""],
      ["gives a credential in another header",
        "was?.type === \"header\" &&\n    was.name.toLowerCase() === authentication.name.toLowerCase()", "was?.type === \"header\""]
    ])
  ]
}
