/** Anthropic's Claude Code, in print mode with streamed JSON on both sides. */
import type { AgentMcp } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Redacted } from "effect"
import * as AgentVersions from "../AgentVersions.ts"
import type { Profile } from "../Profile.ts"

/** Sub-agents and small tasks ask for a model by family. All become the sandbox's model. */
const families = ["OPUS", "SONNET", "HAIKU"]

/**
 * Disabled tools, which start later or run in the background and would change files after the turn. Sub-agents are enabled: without
 * background tasks a turn waits for them.
 */
const withheld = ["CronCreate", "CronDelete", "CronList", "Monitor", "ScheduleWakeup", "Workflow"]

const INSTRUCTIONS = ".slipway/AGENTS.md"
const MCP = ".slipway/mcp.json"

/** Milliseconds of a call: a person may be asked about it. The gateway ends it earlier. */
const MCP_CALL_MILLIS = 24 * 3600 * 1000

/** The token is of this session alone. */
const mcpConfig = ({ access: { baseUrl, token }, servers }: AgentMcp): string =>
  JSON.stringify({
    mcpServers: Object.fromEntries(servers.map((name) => [name, {
      type: "http",
      url: `${baseUrl}/${name}`,
      headers: { Authorization: `Bearer ${Redacted.value(token)}` }
    }]))
  })

export const claude: Profile = {
  runtime: "claude",
  dialect: "claude-stream-json",
  capabilities: {
    toolApprovals: true,
    images: true,
    reasoningEfforts: ["low", "medium", "high", "xhigh", "max", "ultracode"],
    afterDenial: "goes on",
    asksQuestions: true,
    countsRequests: true,
    bearsOtherPaths: { workspace: true, home: true },
    modelProtocol: "anthropic-messages"
  },
  program: {
    package: "@anthropic-ai/claude-code",
    version: "2.1.332",
    pinnedOn: AgentVersions.claude.on,
    pins: (platform) => AgentVersions.pinned(AgentVersions.claude, platform),
    binaries: ({ arch, os }) =>
      ["linux", "darwin"].includes(os) && ["x64", "arm64"].includes(arch)
        ? [`@anthropic-ai/claude-code-${os}-${arch}/claude`, `@anthropic-ai/claude-code-${os}-${arch}-musl/claude`]
        : [],
    license: "proprietary",
    notice: "Proprietary: installing it accepts Anthropic's terms, and it must not be passed on, not in an image either."
  },
  conversationFiles: [".claude/projects"],
  launch: ({ access, box, instructions, mcp, reasoningEffort, resume, toolApprovalMode }, command) => {
    const model = access?.model ?? ""
    return {
      command,
      args: [
        ...["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"],
        ...["--include-partial-messages", "--permission-prompt-tool", "stdio"],
        // Ignores settings, hooks, plugins and servers of the repository.
        ...["--setting-sources", "", "--strict-mcp-config"],
        ...["--disallowed-tools", withheld.join(",")],
        // The gateway decides about each call, so claude asks about none.
        ...(mcp === undefined
          ? []
          : ["--mcp-config", `${box.home}/${MCP}`, "--allowed-tools", mcp.servers.map((name) => `mcp__${name}`).join(",")]),
        ...["--model", model],
        ...(reasoningEffort === null ? [] : ["--effort", reasoningEffort]),
        ...(resume === null ? [] : ["--resume", resume]),
        ...(instructions === null ? [] : ["--append-system-prompt-file", `${box.home}/${INSTRUCTIONS}`]),
        ...(toolApprovalMode === "auto"
          ? ["--permission-mode", "bypassPermissions", "--allow-dangerously-skip-permissions"]
          : [])
      ],
      env: {
        ANTHROPIC_BASE_URL: access?.baseUrl ?? "",
        ANTHROPIC_API_KEY: access === null ? "" : Redacted.value(access.token),
        ...Object.fromEntries(families.map((family) => [`ANTHROPIC_DEFAULT_${family}_MODEL`, model])),
        CLAUDE_CODE_SUBAGENT_MODEL: model,
        CLAUDE_CONFIG_DIR: `${box.home}/.claude`,
        // Allows it to work as root without asking, which is fine in a box.
        IS_SANDBOX: "1",
        CLAUDE_CODE_MAX_RETRIES: "2",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        // Otherwise the end of a background command would start a turn without a prompt.
        CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1",
        // Each command begins in the workspace, because a permission request does not name the folder of an earlier `cd`.
        CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR: "1",
        // Without a search for tools, each model is offered them.
        ...(mcp === undefined ? {} : { MCP_TOOL_TIMEOUT: String(MCP_CALL_MILLIS), ENABLE_TOOL_SEARCH: "false" }),
        DISABLE_AUTOUPDATER: "1",
        DISABLE_TELEMETRY: "1",
        DISABLE_ERROR_REPORTING: "1"
      },
      homeFiles: {
        ...(instructions === null ? {} : { [INSTRUCTIONS]: instructions }),
        ...(mcp === undefined ? {} : { [MCP]: mcpConfig(mcp) })
      }
    }
  }
}
