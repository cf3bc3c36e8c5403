/** The address of an automation's webhook. */

/** The path to which signed requests are sent. */
export const TRIGGER_PATH = "/api/internal/v1/automations/:automationId/trigger"

/** The absolute address of an automation's webhook. */
export const triggerUrl = (publicUrl: string, id: string): string => publicUrl + TRIGGER_PATH.replace(":automationId", id)
