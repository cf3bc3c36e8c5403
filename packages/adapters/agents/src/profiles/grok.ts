/** xAI's grok, over ACP with additional notifications. */
import type { ModelAccess } from "@slipway/domain/models/ports/ModelGateway"
import { Option, Redacted, Schema } from "effect"
import * as AgentVersions from "../AgentVersions.ts"
import { textsOf } from "../Conversation.ts"
import type { AcpQuestions, Profile } from "../Profile.ts"
import { string } from "../Toml.ts"

const EFFORTS = ["none", "low", "medium", "high", "xhigh"] as const

const config = ({ baseUrl, contextTokens, model }: ModelAccess) => {
  const base = string(`${baseUrl}/v1`)
  const name = string(model)
  const efforts = EFFORTS.map((effort) => `{ value = "${effort}"${effort === "medium" ? ", default = true" : ""} }`)
  return `[cli]
auto_update = false
[features]
telemetry = false
feedback = false
remote_fetch = false
managed_config = false
campaigns = false
turn_summary = false
title_refresh = false
session_recap = false
image_gen = false
video_gen = false
voice_mode = false
[workflows]
enabled = false
[toolset.ask_user_question]
timeout_enabled = false
[telemetry]
trace_upload = false
mixpanel_enabled = false
[models]
default = ${name}
session_summary = ${name}
web_search = ${name}
max_retries = 2
[endpoints]
xai_api_base_url = ${base}
cli_chat_proxy_base_url = ${base}
models_base_url = ${base}
[model.${name}]
model = ${name}
base_url = ${base}
name = "Gateway"
env_key = "GATEWAY_TOKEN"
context_window = ${contextTokens}
reasoning_efforts = [${efforts.join(", ")}]
`
}

const nullish = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

const decodeAsked = Schema.decodeUnknownOption(Schema.Struct({
  sessionId: Schema.String,
  questions: Schema.Array(Schema.Struct({
    question: Schema.String,
    options: nullish(Schema.Array(Schema.Struct({ label: Schema.String, description: nullish(Schema.String) }))),
    multiSelect: nullish(Schema.Boolean)
  }))
}))

/**
 * It names questions by their texts, and says `User has answered your questions` whatever the answers are. Its own refusal says that the
 * person declined, which is not known, so a question without an answer says so where its answer would be (1.0.41).
 */
const questions: AcpQuestions = {
  method: "_x.ai/ask_user_question",
  read: (params) =>
    Option.getOrNull(Option.map(decodeAsked(params), ({ questions, sessionId }) => ({
      sessionId,
      questions: questions.map(({ multiSelect, options, question }) => ({
        id: question,
        text: question,
        options: (options ?? []).map(({ description, label }) => ({ label, ...(description == null ? {} : { description }) })),
        multiple: multiSelect === true,
        // It tells its model that every question can be answered in other words.
        allows_text: true
      }))
    }))),
  result: (questions, answers, why) =>
    questions.length === 0
      ? { outcome: "cancelled" }
      : {
        outcome: "accepted",
        answers: Object.fromEntries(questions.map(({ text }, index) => [text, textsOf(answers?.[index] ?? null, why)]))
      }
}

export const grok: Profile = {
  runtime: "grok",
  dialect: "acp",
  acp: {
    noImages: true,
    mcpStarted: "_x.ai/mcp_initialized",
    authMethod: "xai.api_key",
    newSession: ({ instructions }) => (instructions === null ? {} : { _meta: { rules: instructions } }),
    answered: { method: "_x.ai/session_notification", update: "response_completed" },
    questions,
    subAgents: { method: "_x.ai/session_notification", began: "subagent_spawned", ended: "subagent_finished" }
  },
  capabilities: {
    toolApprovals: true,
    // Its `initialize` says so.
    images: false,
    reasoningEfforts: EFFORTS,
    afterDenial: "ends the turn",
    asksQuestions: true,
    countsRequests: true,
    // Its files contain the path of the workspace in names and content (1.0.41): "Path not found".
    bearsOtherPaths: { workspace: false, home: true },
    modelProtocol: "openai-chat"
  },
  program: {
    package: "@xai-official/grok",
    version: "1.0.41",
    pinnedOn: AgentVersions.grok.on,
    pins: (platform) => AgentVersions.pinned(AgentVersions.grok, platform),
    compressed: ({ arch, os }) => `@xai-official/grok-${os}-${arch}/bin/grok.br`,
    binaries: ({ arch, os }) =>
      ["linux", "darwin"].includes(os) && ["x64", "arm64"].includes(arch) ? ["@xai-official/grok/bin/grok-native"] : [],
    license: "Apache-2.0"
  },
  conversationFiles: [".grok/sessions"],
  launch: ({ access, box, toolApprovalMode }, command) => {
    const token = access === null ? "" : Redacted.value(access.token)
    return {
      command,
      args: [
        ...["--no-auto-update", "agent"],
        ...(toolApprovalMode === "auto" ? ["--always-approve"] : []),
        ...["-m", access?.model ?? "", "stdio"]
      ],
      env: {
        GROK_HOME: `${box.home}/.grok`,
        GATEWAY_TOKEN: token,
        XAI_API_KEY: token,
        GROK_XAI_API_BASE_URL: `${access?.baseUrl ?? ""}/v1`,
        GROK_TELEMETRY_ENABLED: "0",
        GROK_DISABLE_AUTOUPDATER: "1",
        // Otherwise it would start a turn without a prompt when a sub-agent has ended (1.0.41).
        GROK_AUTO_WAKE: "0"
      },
      homeFiles: access === null ? {} : { ".grok/config.toml": config(access) }
    }
  }
}
