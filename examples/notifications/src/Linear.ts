/** A notification as a comment at the issue of Linear that the sandbox's metadata name: `"linear_issue": "ENG-42"`. */
import { type Notification, sentenceOf } from "./Notification.ts"
import { post } from "./Receiver.ts"

const MUTATION = "mutation Comment($input: CommentCreateInput!) { commentCreate(input: $input) { success } }"

/** Titles come from people and agents: a text of theirs must not become markup or a mention. */
const escaped = (text: string): string => text.replace(/[\\`*_[\]<>#|~@]/gu, "\\$&")

/** The request; `null`: no comment is to be made. */
export const linearComment = (notification: Notification, publicUrl: string) => {
  const { id, metadata, title } = notification.sandbox
  const issueId = metadata["linear_issue"]
  const sentence = sentenceOf(notification)
  if (issueId === undefined || sentence === null) return null
  const link = `${publicUrl}/sandboxes/${encodeURIComponent(id)}`
  return { query: MUTATION, variables: { input: { issueId, body: `**${escaped(title)}**: ${escaped(sentence)}\n\n${link}` } } }
}

/** Handles a notification. `apiUrl`: `https://api.linear.app/graphql`. */
export const toLinear = (apiUrl: string, apiKey: string, publicUrl: string) => async (notification: Notification): Promise<void> => {
  const comment = linearComment(notification, publicUrl)
  if (comment === null) return
  const answer: { readonly data?: { readonly commentCreate?: { readonly success?: boolean } } } = JSON.parse(
    await post(apiUrl, comment, { authorization: apiKey })
  )
  // GraphQL answers 200 also where nothing was done.
  if (answer.data?.commentCreate?.success !== true) throw new Error("Linear made no comment")
}
