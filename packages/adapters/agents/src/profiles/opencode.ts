/** opencode, over ACP. */
import type { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import { Redacted } from "effect"
import * as AgentVersions from "../AgentVersions.ts"
import type { Profile } from "../Profile.ts"

/** It offers the efforts of our model configuration; the catalogue limits them to those of the model. */
const EFFORTS: ReadonlyArray<ReasoningEffort> = ["none", "low", "medium", "high", "xhigh", "max", "ultra"]

const INSTRUCTIONS = ".slipway/AGENTS.md"

/**
 * Reading needs no approval, everything else does. Over ACP the calls of its sub-agents never ask and wait forever (1.18.33), so
 * sub-agents are disabled where approvals are needed.
 */
const prompting = { "*": "ask", task: "deny", read: "allow", glob: "allow", grep: "allow", list: "allow", todowrite: "allow" }

const off = [
  "PROJECT_CONFIG",
  "MODELS_FETCH",
  "AUTOUPDATE",
  "LSP_DOWNLOAD",
  "DEFAULT_PLUGINS",
  "CLAUDE_CODE",
  "SHARE"
].map((what) => `OPENCODE_DISABLE_${what}`)

/**
 * Pretends that the package for writing plugins is installed. Otherwise opencode fetches it from the npm registry at each start in a
 * new home, which would be its only request besides the model's.
 */
const noPackages = {
  ".config/opencode/node_modules/.package-lock.json": "{}",
  ".config/opencode/package-lock.json": JSON.stringify({ packages: { "": { dependencies: { "@opencode-ai/plugin": "*" } } } })
}

export const opencode: Profile = {
  runtime: "opencode",
  dialect: "acp",
  acp: { noEffort: "default" },
  capabilities: {
    toolApprovals: true,
    images: true,
    reasoningEfforts: EFFORTS,
    afterDenial: "ends the turn",
    // It reports the tokens of the last request only.
    asksQuestions: false,
    countsRequests: false,
    bearsOtherPaths: { workspace: true, home: true },
    modelProtocol: "openai-chat"
  },
  program: {
    package: "opencode-ai",
    version: "1.18.33",
    pinnedOn: AgentVersions.opencode.on,
    pins: (platform) => AgentVersions.pinned(AgentVersions.opencode, platform),
    binaries: ({ arch, avx2, os }) => {
      if (!["linux", "darwin"].includes(os) || !["x64", "arm64"].includes(arch)) return []
      const builds = arch === "arm64" ? [""] : avx2 ? ["", "-baseline"] : ["-baseline"]
      return builds.flatMap((build) => [`opencode-${os}-${arch}${build}`, `opencode-${os}-${arch}${build}-musl`])
        .map((name) => `${name}/bin/opencode`)
    },
    license: "MIT"
  },
  // The newest data may be only in the database's write-ahead log. The index of that log is rebuilt.
  conversationFiles: [".local/share/opencode/opencode.db", ".local/share/opencode/opencode.db-wal"],
  launch: ({ access, box, images = true, instructions, mcp, reasoningEffort, toolApprovalMode }, command) => {
    // The gateway decides about calls of MCP servers, so opencode asks about none.
    const decided = Object.fromEntries((mcp?.servers ?? []).map((name) => [`${name}_*`, "allow"]))
    const permission = toolApprovalMode === "auto" ? { "*": "allow" } : { ...prompting, ...decided }
    const model = access?.model ?? ""
    const config = {
      autoupdate: false,
      share: "disabled",
      snapshot: false,
      lsp: false,
      formatter: false,
      model: `gateway/${model}`,
      small_model: `gateway/${model}`,
      enabled_providers: ["gateway"],
      agent: { title: { disable: true } },
      ...(instructions === null ? {} : { instructions: [`${box.home}/${INSTRUCTIONS}`] }),
      provider: {
        gateway: {
          npm: "@ai-sdk/openai-compatible",
          name: "Gateway",
          options: { baseURL: `${access?.baseUrl ?? ""}/v1`, apiKey: access === null ? "" : Redacted.value(access.token) },
          models: {
            [model]: {
              name: model,
              reasoning: true,
              tool_call: true,
              // Otherwise it tells the model that it cannot read the image.
              attachment: images,
              modalities: { input: images ? ["text", "image"] : ["text"], output: ["text"] },
              limit: { context: access?.contextTokens ?? 0, output: access?.outputTokens ?? 0 },
              variants: reasoningEffort === null ? {} : { [reasoningEffort]: { reasoningEffort } }
            }
          }
        }
      },
      permission
    }
    return {
      command,
      args: ["acp", "--cwd", box.workspace],
      env: {
        OPENCODE_CONFIG_CONTENT: JSON.stringify(config),
        OPENCODE_PERMISSION: JSON.stringify(permission),
        // No plugins except its own, in any place.
        ...Object.fromEntries([...off, "OPENCODE_PURE"].map((name) => [name, "1"]))
      },
      homeFiles: { ...noPackages, ...(instructions === null ? {} : { [INSTRUCTIONS]: instructions }) }
    }
  }
}
