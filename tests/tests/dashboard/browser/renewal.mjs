// A token that is about to end is renewed without a word.

import assert from 'node:assert/strict';
import { arrive } from './kit/actions.mjs';
import { counts, signedIn } from './kit/sign_in.mjs';

export default async function scenario(stage) {
  const page = await signedIn(stage, 'short', '#/instances');
  await arrive(page, 'Instances');
  await page.getByRole('link', { name: 'order-1047' }).first().click();
  await page.getByRole('heading', { name: 'order-1047' }).first().waitFor();
  assert.ok((await counts(stage.world)).refresh_token > 0);
  assert.equal(await page.getByRole('dialog').count(), 0);
}
