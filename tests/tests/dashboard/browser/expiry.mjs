// A sign-in that has expired is renewed in a window of its own. What the page shows, and what was typed, stays.

import assert from 'node:assert/strict';
import { arrive, see } from './kit/actions.mjs';
import { signedIn } from './kit/sign_in.mjs';

export default async function scenario(stage) {
  stage.expect(/status of 401/);
  const page = await signedIn(stage, 'client', '#/start');
  await arrive(page, /Start/);
  await page.getByLabel('Orchestration').fill('wait-for-go');
  await page.getByLabel('Input').fill('{"typed": "before the sign-in expired"}');
  await fetch(`${stage.world.control}/later`, { method: 'POST' });
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Sign in' });
  await dialog.waitFor();
  assert.match(await dialog.innerText(), /expired/);

  // The clock of the API is an hour ahead now: the next token is refused as well, until the dialog is left with Escape.
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await page.getByLabel('Input').inputValue(), '{"typed": "before the sign-in expired"}');
  await page.getByRole('button', { name: 'Sign in' }).first().click();
  const opened = page.waitForEvent('popup');
  await page.getByRole('dialog').getByRole('button', { name: 'Sign in' }).click();
  const popup = await opened;
  await popup.getByRole('link', { name: 'later', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await page.getByLabel('Input').inputValue(), '{"typed": "before the sign-in expired"}');
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await see(page, 'wait-for-go');
}
