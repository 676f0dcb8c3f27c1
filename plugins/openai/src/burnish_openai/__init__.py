"""burnish_openai"""
