/** A notification as a message of blocks for an incoming webhook of Slack. */
import { type Notification, sentenceOf } from "./Notification.ts"
import { post } from "./Receiver.ts"

/** Titles come from people and agents: a text of theirs must not become a link, a mention or markup. */
const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
const cut = (text: string, length: number): string => text.length <= length ? text : `${text.slice(0, length - 1)}…`

/** The message; `null`: none is to be sent. `publicUrl`: of Slipway, for the button. */
export const slackMessage = (notification: Notification, publicUrl: string) => {
  const { sandbox } = notification
  const sentence = sentenceOf(notification)
  if (sentence === null) return null
  const title = cut(sandbox.title, 140)
  const repos = sandbox.repos.map(({ fullName }) => fullName).join(", ")
  return {
    // Shown in notifications of the desktop.
    text: escaped(cut(`${title}: ${sentence}`, 3000)),
    blocks: [
      { type: "header", text: { type: "plain_text", text: title, emoji: false } },
      { type: "section", text: { type: "mrkdwn", text: escaped(cut(sentence, 2000)) } },
      { type: "context", elements: [{ type: "plain_text", text: cut(`${sandbox.status} · ${repos}`, 2000), emoji: false }] },
      {
        type: "actions",
        elements: [{
          type: "button",
          text: { type: "plain_text", text: "Open" },
          url: `${publicUrl}/sandboxes/${encodeURIComponent(sandbox.id)}`
        }]
      }
    ]
  }
}

/** Handles a notification. `webhookUrl`: of the Slack app. */
export const toSlack = (webhookUrl: string, publicUrl: string) => async (notification: Notification): Promise<void> => {
  const message = slackMessage(notification, publicUrl)
  if (message !== null) await post(webhookUrl, message)
}
