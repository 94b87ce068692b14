"""The Hugging Face Hub: agents are pushed to it and pulled from it, through huggingface_hub."""
