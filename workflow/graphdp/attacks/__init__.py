"""Attacks on trained models, as the papers run them: what an adversary learns from the answers.

They say how well one attack does and bound no ε from above; lower bounds on ε are the audits'.
"""
