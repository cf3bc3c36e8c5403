/** A notification: an event of a sandbox, with the sandbox. Only what these receivers read; types of events may be added. */
export interface Notification {
  /** The event's number in the sandbox's log. */
  readonly id: string
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
  readonly sandbox: {
    readonly id: string
    readonly title: string
    readonly status: string
    readonly repos: ReadonlyArray<{ readonly fullName: string; readonly ref?: string }>
    readonly metadata: Readonly<Record<string, string>>
  }
}

const text = (value: unknown): string => typeof value === "string" ? value : ""

/** The event in one line for people; `null`: nothing that they need to know. */
export const sentenceOf = ({ data, sandbox, type }: Notification): string | null => {
  switch (type) {
    case "sandbox.status":
      if (sandbox.status === "running" && data["status"] === "running") return "The sandbox runs."
      return data["status"] === "failed"
        ? `The sandbox failed: ${text(data["reason"]) || "no reason"}.`
        : `The sandbox ${text(data["status"])}.`
    case "turn.completed":
      return `The agent's turn ${text(data["state"])}.`
    case "approval.requested":
      return `The agent asks for an approval: ${text(data["tool"])}.`
    case "question.asked":
      return "The agent has a question."
    case "pull_request.updated":
      return typeof data["url"] === "string" && data["action_state"] === "idle"
        ? data["merged"] === true ? `Merged: ${data["url"]}` : `Pull request: ${data["url"]}`
        : null
    case "feedback.paused":
      return `Feedback is paused for ${text(data["repo"])}.`
    default:
      return null
  }
}
