/** OpenAI's codex, as an app server. */
import type { ModelAccess } from "@slipway/domain/models/ports/ModelGateway"
import type { AgentMcp } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Redacted } from "effect"
import * as AgentVersions from "../AgentVersions.ts"
import type { Profile } from "../Profile.ts"
import { string } from "../Toml.ts"

/** Rust target triples of the platforms with builds. */
const triples: Readonly<Record<string, string>> = {
  "linux-x64": "x86_64-unknown-linux-musl",
  "linux-arm64": "aarch64-unknown-linux-musl",
  "darwin-x64": "x86_64-apple-darwin",
  "darwin-arm64": "aarch64-apple-darwin"
}

const EFFORTS = ["none", "low", "medium", "high", "xhigh", "max", "ultra"] as const

/** Slugs with instructions and tools in the pinned version (`codex debug models --bundled`). Dated names start with a slug. */
const KNOWN_MODELS = [
  "gpt-6-astra",
  "gpt-6.1-sol",
  "gpt-6.1-terra",
  "gpt-6-sol",
  "gpt-6-luna",
  "gpt-5.6-sol",
  "gpt-5.6-terra",
  "gpt-5.6-luna",
  "gpt-5.5",
  "gpt-daybreak-blue",
  "gpt-daybreak-red"
]

/** The description of an unknown model. Without it, codex gives the model no tool to edit files. */
const catalogue = ({ contextTokens, model }: ModelAccess, images: boolean) =>
  JSON.stringify({
    models: [
      {
        slug: model,
        display_name: model,
        description: model,
        default_reasoning_level: "medium",
        supported_reasoning_levels: EFFORTS.map((effort) => ({ effort, description: effort })),
        shell_type: "unified_exec",
        visibility: "list",
        supported_in_api: true,
        priority: 1,
        availability_nux: null,
        upgrade: null,
        support_verbosity: false,
        default_verbosity: null,
        apply_patch_tool_type: "freeform",
        truncation_policy: { mode: "tokens", limit: 10_000 },
        context_window: contextTokens,
        max_context_window: contextTokens,
        effective_context_window_percent: 95,
        experimental_supported_tools: [],
        // Without "image" it leaves images out of its requests, those of prompts too.
        input_modalities: images ? ["text", "image"] : ["text"],
        supports_reasoning_summaries: true,
        supports_parallel_tool_calls: false,
        base_instructions:
          "You are a coding agent. Work in the repositories of the working directory until what you were asked for is done, " +
          "then say briefly what you did."
      }
    ]
  })

/** `shell_snapshot` would copy the environment, including the token, into a file of the home. */
const config = ({ baseUrl, model }: ModelAccess, catalogueFile: string | null) =>
  `${catalogueFile === null ? "" : `model_catalog_json = ${string(catalogueFile)}\n`}model = ${string(model)}
model_provider = "gateway"
check_for_update_on_startup = false
web_search = "disabled"
[analytics]
enabled = false
[feedback]
enabled = false
[otel]
exporter = "none"
metrics_exporter = "none"
[features]
apps = false
default_mode_request_user_input = true
plugins = false
remote_plugin = false
shell_snapshot = false
unbounded_connection_retries = false
[model_providers.gateway]
name = "Gateway"
base_url = ${string(`${baseUrl}/v1`)}
wire_api = "responses"
env_key = "GATEWAY_TOKEN"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
`

/** Seconds of a call: a person may be asked about it. The gateway ends it earlier. */
const MCP_CALL_SECONDS = 24 * 3600

/** The gateway decides about each call, so codex asks about none. */
const mcpConfig = ({ access: { baseUrl }, servers }: AgentMcp) =>
  servers.map((name) =>
    `[mcp_servers.${name}]
url = ${string(`${baseUrl}/${name}`)}
bearer_token_env_var = "MCP_GATEWAY_TOKEN"
tool_timeout_sec = ${MCP_CALL_SECONDS}
default_tools_approval_mode = "approve"
`
  ).join("")

export const codex: Profile = {
  runtime: "codex",
  dialect: "codex-app-server",
  capabilities: {
    toolApprovals: true,
    images: true,
    reasoningEfforts: EFFORTS,
    afterDenial: "goes on",
    asksQuestions: true,
    countsRequests: true,
    bearsOtherPaths: { workspace: true, home: true },
    modelProtocol: "openai-responses"
  },
  program: {
    package: "@openai/codex",
    version: "0.169.0",
    pinnedOn: AgentVersions.codex.on,
    pins: (platform) => AgentVersions.pinned(AgentVersions.codex, platform),
    binaries: ({ arch, os }) => {
      const triple = triples[`${os}-${arch}`]
      return triple === undefined ? [] : [`@openai/codex-${os}-${arch}/vendor/${triple}/bin/codex`]
    },
    license: "Apache-2.0"
  },
  // It rebuilds its databases from these files (0.169.0).
  conversationFiles: [".codex/sessions"],
  launch: ({ access, box, images = true, mcp }, command) => {
    const home = `${box.home}/.codex`
    const unknown = access !== null && !KNOWN_MODELS.some((slug) => access.model.startsWith(slug))
    return {
      command,
      args: ["app-server"],
      env: {
        CODEX_HOME: home,
        GATEWAY_TOKEN: access === null ? "" : Redacted.value(access.token),
        ...(mcp === undefined ? {} : { MCP_GATEWAY_TOKEN: Redacted.value(mcp.access.token) })
      },
      homeFiles: access === null ? {} : {
        ".codex/config.toml": config(access, unknown ? `${home}/catalogue.json` : null) + (mcp === undefined ? "" : mcpConfig(mcp)),
        ...(unknown ? { ".codex/catalogue.json": catalogue(access, images) } : {})
      }
    }
  }
}
