/** opencode, over ACP. */
import type { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import { Redacted } from "effect"
import * as AgentVersions from "../AgentVersions.ts"
import type { Profile } from "../Profile.ts"

/** It offers what our own configuration of the model defines; the catalogue bounds it by what the model takes. */
const EFFORTS: ReadonlyArray<ReasoningEffort> = ["none", "low", "medium", "high", "xhigh", "max", "ultra"]

const INSTRUCTIONS = ".slipway/AGENTS.md"

/**
 * Reading is free, everything else is asked for. Over ACP the calls of its sub-agents ask nobody and wait for ever (1.18.33), so it has
 * none where people are asked.
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
 * Makes it believe that the package for writing plugins is there. Otherwise it fetches it from the npm registry at each
 * start in a new home: the one address it would look up beside its model's.
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
    reasoningEfforts: EFFORTS,
    afterDenial: "ends the turn",
    // It tells the tokens of the last request only.
    countsRequests: false,
    bearsOtherPaths: { workspace: true, home: true },
    modelProtocol: "openai-chat"
  },
  program: {
    package: "opencode-ai",
    version: "1.18.33",
    pins: (platform) => AgentVersions.pinned(AgentVersions.opencode, platform),
    binaries: ({ arch, avx2, os }) => {
      if (!["linux", "darwin"].includes(os) || !["x64", "arm64"].includes(arch)) return []
      const builds = arch === "arm64" ? [""] : avx2 ? ["", "-baseline"] : ["-baseline"]
      return builds.flatMap((build) => [`opencode-${os}-${arch}${build}`, `opencode-${os}-${arch}${build}-musl`])
        .map((name) => `${name}/bin/opencode`)
    },
    license: "MIT"
  },
  // What was written last may be in the log of the database alone. Its index of the log it makes anew.
  conversationFiles: [".local/share/opencode/opencode.db", ".local/share/opencode/opencode.db-wal"],
  launch: ({ access, box, instructions, reasoningEffort, toolApprovalMode }, command) => {
    const permission = toolApprovalMode === "auto" ? { "*": "allow" } : prompting
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
        // No plugins but its own, wherever it looks for them.
        ...Object.fromEntries([...off, "OPENCODE_PURE"].map((name) => [name, "1"]))
      },
      homeFiles: { ...noPackages, ...(instructions === null ? {} : { [INSTRUCTIONS]: instructions }) }
    }
  }
}
