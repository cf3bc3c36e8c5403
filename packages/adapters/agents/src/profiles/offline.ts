/** The offline agent: our program, run by our Node. */
import { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import { Option, Schema } from "effect"
import { fileURLToPath } from "node:url"
import type { AcpQuestions, Profile } from "../Profile.ts"

/** Beside this file in sources and builds. A box must see its folder. */
export const PROGRAM = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../offline/OfflineAgent.main.ts" : "../offline/OfflineAgent.main.js", import.meta.url)
)

const decodeAsked = Schema.decodeUnknownOption(Schema.Struct({
  sessionId: Schema.String,
  questions: Schema.Array(Schema.Struct({
    text: Schema.String,
    options: Schema.Array(Schema.String),
    multiple: Schema.Boolean,
    allowsText: Schema.Boolean
  }))
}))

const questions: AcpQuestions = {
  method: "_slipway/ask",
  read: (params) =>
    Option.getOrNull(Option.map(decodeAsked(params), ({ questions, sessionId }) => ({
      sessionId,
      questions: questions.map(({ allowsText, multiple, options, text }, index) => ({
        id: String(index),
        text,
        options: options.map((label) => ({ label })),
        multiple,
        allows_text: allowsText
      }))
    }))),
  result: (_, answers, why) => ({
    answers: answers?.map((answer) => [...answer?.labels ?? [], ...(answer?.text === undefined ? [] : [answer.text])]) ?? null,
    ...(why === undefined ? {} : { why })
  })
}

export const offline: Profile = {
  runtime: "opencode",
  dialect: "acp",
  acp: { steering: { method: "_slipway/steer", taken: "_slipway/steered" }, questions, denialReason: "slipway/reason" },
  capabilities: {
    toolApprovals: true,
    reasoningEfforts: ReasoningEffort.literals,
    afterDenial: "goes on",
    asksQuestions: true,
    countsRequests: false,
    bearsOtherPaths: { workspace: true, home: true },
    modelProtocol: null
  },
  program: null,
  conversationFiles: [".slipway-offline"],
  launch: ({ repositories, toolApprovalMode }, command) => ({
    command,
    args: [PROGRAM],
    env: { OFFLINE_AGENT: JSON.stringify({ repositories, asks: toolApprovalMode === "prompt" }) }
  })
}
